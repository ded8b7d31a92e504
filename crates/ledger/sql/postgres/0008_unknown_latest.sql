-- What nobody knows, newest first, page by page: without looking through everything that is known.
create index effects_unknown_latest on effects (effect_id) where state = 'outcome_unknown';
