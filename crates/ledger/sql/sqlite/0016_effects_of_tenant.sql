-- A tenant's effects, newest first: a page of them does not walk through those of other tenants.
create index effects_of_tenant on effects (tenant, effect_id);
