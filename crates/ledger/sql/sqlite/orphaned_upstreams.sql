-- The upstreams that effects under way need, each found by the index from the one before it.
with recursive needed (upstream) as (
    select min(upstream) from effects where upstream is not null
    union all
    select (select min(effects.upstream) from effects where effects.upstream > needed.upstream)
    from needed
    where needed.upstream is not null
)
select upstream from needed where upstream is not null limit ?1
