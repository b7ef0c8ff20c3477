#!/usr/bin/env bash
# Somebody shops: a transaction for each order; some are paid, shipped, returned, and few are deleted.
set -euo pipefail
sql() { mysql --host=tidb --port=4000 --user=root --silent "$@"; }

sql < "$(dirname "$0")/schema.sql"

# LAST_INSERT_ID() and stock are unsigned: what is below zero is an error (1690), so nothing is taken from less than it.
transaction() {
  local customer=$((RANDOM % 500 + 1)) product=$((RANDOM % 100)) total=$((RANDOM % 90000 + 1000)) back=$((RANDOM % 50))
  cat <<SQL
BEGIN;
INSERT INTO shop.customers (id, email) VALUES ($customer, 'c$customer@example.com')
  ON DUPLICATE KEY UPDATE balance = balance + $((total / 1000)), tier = IF(balance > 1000, 'gold', 'silver');
INSERT INTO shop.products (sku, title, price, attrs, stock) VALUES ('SKU-$product', 'Product $product', $((total / 100)).99, '{"n": $product}', 1000)
  ON DUPLICATE KEY UPDATE stock = IF(stock > 0, stock, 1001) - 1;
INSERT INTO shop.orders (customer_id, total, note) VALUES ($customer, $total / 7, IF($RANDOM % 5, NULL, 'be quick'));
SET @o = LAST_INSERT_ID();
INSERT INTO shop.order_items (order_id, line_no, sku, qty) VALUES (@o, 1, 'SKU-$product', $((RANDOM % 5 + 1)));
COMMIT;
UPDATE shop.orders SET status = ELT($((RANDOM % 3 + 1)), 'paid', 'shipped', 'returned')
  WHERE order_id = GREATEST(@o, $back) - $back;
DELETE FROM shop.order_items WHERE order_id = GREATEST(@o, 1000) - 1000;
DELETE FROM shop.orders WHERE order_id = GREATEST(@o, 1000) - 1000;
SQL
}

# One session; a second's orders at a time.
while true; do
  for _ in $(seq "${ORDERS_PER_SECOND:-20}"); do transaction; done
  sleep 1
done | sql
