-- Leaves, only beside an effect that was written, in their order.
insert into log_outbox (count, leaves)
select leaf.count::integer, leaf.leaves
from unnest($1::leaves_beside[]) with ordinality as leaf (effect_id, count, leaves, place)
where leaf.effect_id is null or leaf.effect_id in (select written.effect_id from written)
order by leaf.place
