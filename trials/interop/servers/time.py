"""PyPI mcp-server-time (mcp 2.x, dual-era): output schemas from Python types, and a day that ends."""

from .script import EVERY_TOOL, FAILS, INVALID, OK, Normalisation, Server


def launch(tools, root):
    # Its descriptions name the local time zone, so that is told.
    return {"command": str(tools / "py2/bin/mcp-server-time"), "args": ["--local-timezone", "Etc/UTC"]}


def fixture(root):
    pass


def calls(root):
    def convert(source, time, target):
        return {"source_timezone": source, "time": time, "target_timezone": target}

    return [
        # No zone of these has a summer time, so the difference is the same all year.
        ("convert_time", convert("Asia/Kathmandu", "16:30", "Asia/Kolkata"), OK),
        ("convert_time", convert("Etc/UTC", "23:59", "Pacific/Kiritimati"), OK),
        ("convert_time", convert("Asia/Tokyo", "00:00", "Asia/Tokyo"), OK),
        ("get_current_time", {"timezone": "Asia/Tokyo"}, OK),
        ("get_current_time", {"timezone": "Nowhere/City"}, FAILS),
        ("convert_time", convert("Asia/Tokyo", "25:00", "Etc/UTC"), FAILS),
        ("convert_time", convert("", "12:00", "Etc/UTC"), FAILS),
        ("convert_time", {"source_timezone": "Asia/Tokyo", "time": "12:00"}, INVALID),
        ("get_current_time", {"timezone": 7}, INVALID),
    ]


SERVER = Server(
    launch,
    fixture,
    calls,
    normalisations=(
        Normalisation(
            "get_current_time",
            r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d",
            "<now>",
            "it is another time at the second call: only the shape of the answer is compared",
        ),
        Normalisation(
            EVERY_TOOL,
            r"\d{4}-\d\d-\d\d(?=T)",
            "<today>",
            "a time of day is converted as of today, and midnight may pass between the two sides",
        ),
        Normalisation(EVERY_TOOL, r"(Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day", "<weekday>", "the same"),
    ),
)
