INSERT INTO customers (customer_id, name, email, country, currency) VALUES
    ('cus_001', 'Aurora Bakery GmbH',      'accounts@aurora-bakery.example',  'DE', 'EUR'),
    ('cus_002', 'Blue Heron Logistics',    'billing@blueheron.example',       'US', 'USD'),
    ('cus_003', 'Cobalt Instruments AG',   'buchhaltung@cobalt.example',      'CH', 'CHF'),
    ('cus_004', 'Dune & Daughters',        'office@dunedaughters.example',    'IE', 'EUR'),
    ('cus_005', 'Estrela Atelier',         'contas@estrela.example',          'PT', 'EUR'),
    ('cus_006', 'Fjord Software AS',       'faktura@fjord.example',           'NO', 'EUR');

INSERT INTO invoices (invoice_id, customer_id, status, currency, issued, due, void_reason) VALUES
    ('inv_1001', 'cus_001', 'paid',  'EUR', '2026-08-03', '2026-09-02', NULL),
    ('inv_1002', 'cus_002', 'paid',  'USD', '2026-08-17', '2026-09-16', NULL),
    ('inv_1003', 'cus_003', 'open',  'CHF', '2026-09-01', '2026-10-01', NULL),
    ('inv_1004', 'cus_001', 'void',  'EUR', '2026-09-04', '2026-10-04', 'duplicate'),
    ('inv_1005', 'cus_004', 'open',  'EUR', '2026-09-21', '2026-10-21', NULL),
    ('inv_1006', 'cus_005', 'paid',  'EUR', '2026-10-02', '2026-11-01', NULL),
    ('inv_1007', 'cus_002', 'open',  'USD', '2026-10-05', '2026-11-04', NULL),
    ('inv_1008', 'cus_006', 'open',  'EUR', '2026-10-19', '2026-11-18', NULL),
    ('inv_1009', 'cus_003', 'draft', 'CHF', '2026-11-02', '2026-12-02', NULL),
    ('inv_1010', 'cus_004', 'draft', 'EUR', '2026-11-09', '2026-12-09', NULL);

INSERT INTO invoice_lines (invoice_id, position, description, quantity, unit_cents) VALUES
    ('inv_1001', 1, 'Oven maintenance contract, Q3',   1,  48000),
    ('inv_1001', 2, 'Replacement door seal',           4,   3250),
    ('inv_1002', 1, 'Route planning licence',         12,  19900),
    ('inv_1003', 1, 'Calibration of pressure gauges', 20,   8500),
    ('inv_1003', 2, 'Travel',                          1,  22000),
    ('inv_1004', 1, 'Oven maintenance contract, Q3',   1,  48000),
    ('inv_1005', 1, 'Website refresh',                 1, 640000),
    ('inv_1006', 1, 'Fabric samples, shipping',        3,   4500),
    ('inv_1007', 1, 'Route planning licence',         12,  19900),
    ('inv_1007', 2, 'Onboarding workshop, day',        2, 120000),
    ('inv_1008', 1, 'Security review',                 5, 115000),
    ('inv_1009', 1, 'Calibration of flow meters',      8,   9750),
    ('inv_1010', 1, 'Hosting, 12 months',             12,   4900);

INSERT INTO payments (payment_id, invoice_id, amount_cents, currency) VALUES
    ('pay_001', 'inv_1001',  61000, 'EUR'),
    ('pay_002', 'inv_1002', 238800, 'USD'),
    ('pay_003', 'inv_1006',  13500, 'EUR'),
    ('pay_004', 'inv_1008', 200000, 'EUR');

INSERT INTO outbox (mail_id, recipient, subject, body) VALUES
    ('mail_001', 'billing@blueheron.example', 'Your invoice inv_1007',
     'Dear Blue Heron team, please find invoice inv_1007 over 4788.00 USD attached.'),
    ('mail_002', 'office@dunedaughters.example', 'Reminder: inv_1005',
     'A friendly reminder that invoice inv_1005 was due on 2026-10-21.');

INSERT INTO files (path, content) VALUES
    ('/contracts/cus_002.md',    'Blue Heron Logistics: net 30 days, USD, renewal 2027-01-01.'),
    ('/notes/standup.md',        'Monday: chase inv_1005. Tuesday: Fjord pays the rest of inv_1008.'),
    ('/policies/payments.md',    'Payments above 5000.00 need a second pair of eyes.'),
    ('/policies/refunds.md',     'Refunds go back the way the money came, within 14 days.');

INSERT INTO meetings (meeting_id, title, start_at, end_at, attendees) VALUES
    ('mtg_001', 'Quarterly review', '2026-11-20T09:00:00+01:00', '2026-11-20T10:30:00+01:00',
     '["mara@lindgren-roth.example","jon@lindgren-roth.example"]');
