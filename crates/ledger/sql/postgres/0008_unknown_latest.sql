-- Effects whose outcome is unknown, newest first, page by page. The condition on the handle always holds; it keeps the planner from
-- taking this index for the search by request, which has an index of its own.
create index effects_unknown_latest on effects (effect_id) where state = 'outcome_unknown' and effect_id is not null;
