CREATE TABLE customers (
    customer_id TEXT PRIMARY KEY,
    name        TEXT NOT NULL,
    email       TEXT NOT NULL,
    country     TEXT NOT NULL,
    currency    TEXT NOT NULL
) STRICT;

CREATE TABLE invoices (
    invoice_id  TEXT PRIMARY KEY,
    customer_id TEXT NOT NULL REFERENCES customers,
    status      TEXT NOT NULL CHECK (status IN ('draft', 'open', 'paid', 'void')),
    currency    TEXT NOT NULL,
    issued      TEXT NOT NULL,
    due         TEXT NOT NULL,
    void_reason TEXT
) STRICT;

CREATE TABLE invoice_lines (
    invoice_id  TEXT    NOT NULL REFERENCES invoices,
    position    INTEGER NOT NULL,
    description TEXT    NOT NULL,
    quantity    INTEGER NOT NULL CHECK (quantity >= 1),
    unit_cents  INTEGER NOT NULL CHECK (unit_cents >= 0),
    PRIMARY KEY (invoice_id, position)
) STRICT;

CREATE TABLE payments (
    payment_id   TEXT    PRIMARY KEY,
    invoice_id   TEXT    NOT NULL REFERENCES invoices,
    amount_cents INTEGER NOT NULL CHECK (amount_cents > 0),
    currency     TEXT    NOT NULL
) STRICT;

CREATE TABLE outbox (
    mail_id   TEXT PRIMARY KEY,
    recipient TEXT NOT NULL,
    subject   TEXT NOT NULL,
    body      TEXT NOT NULL
) STRICT;

CREATE TABLE files (
    path    TEXT PRIMARY KEY,
    content TEXT NOT NULL
) STRICT;

CREATE TABLE meetings (
    meeting_id TEXT PRIMARY KEY,
    title      TEXT NOT NULL,
    start_at   TEXT NOT NULL,
    end_at     TEXT NOT NULL,
    attendees  TEXT NOT NULL -- a JSON array: nothing ever searches it
) STRICT;

-- What really happened since the seed, one row per effect. Tests count it to prove that a refused
-- call never ran, so it is written in the same transaction as the effect itself.
CREATE TABLE effects (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    kind     TEXT NOT NULL,
    subject  TEXT NOT NULL
) STRICT;

CREATE VIEW invoice_summaries AS
SELECT invoice_id, customer_id, status, currency, issued, due, void_reason,
       (SELECT COALESCE(SUM(quantity * unit_cents), 0) FROM invoice_lines
         WHERE invoice_lines.invoice_id = invoices.invoice_id) AS total_cents,
       (SELECT COALESCE(SUM(amount_cents), 0) FROM payments
         WHERE payments.invoice_id = invoices.invoice_id) AS paid_cents
  FROM invoices;
