-- When the last of the next open reservations was opened that one sweep looks at; null if they are fewer.
select opened_ms from holds
where stage = 'open' and kind = 'reservation' and opened_ms >= ?1
order by opened_ms
limit 1 offset ?2
