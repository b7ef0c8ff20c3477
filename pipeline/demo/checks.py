"""What the demo expects of the shop: two suites, as a user writes them, beside the demo's configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_ORDERS = """\
table: shop.orders
owner: order desk
checks:
  - expect_column_values_to_be_between: {column: total, min_value: 0}
    name: total_not_negative
    severity: quarantine
    because: money goes back as a payment; an order is never negative
  - expect_column_values_to_be_in_set: {column: currency, value_set: [EUR, USD, JPY, GBP]}
    name: known_currency
    severity: quarantine
    because: the ledger has no rate for any other
  - expect_column_values_to_be_between: {column: placed_at, max_value: 2100-01-01T00:00:00}
    name: placed_in_our_time
    severity: warn
    because: a till with a wrong clock is found by its orders
"""
_CUSTOMERS = """\
table: shop.customers
owner: customer care
private: [email, phone]             # their values are kept in no sample
checks:
  - expect_column_values_to_match_regex: {column: email, regex: '^[^@ ]+@[^@ ]+[.][a-z]+$'}
    name: email_is_an_address
    because: invoices go there
  - expect_column_values_to_be_between: {column: balance, min_value: 0}
    name: no_credit
    because: nobody owes us money unless a person agreed to it
  - expect_column_values_to_be_unique: {column: email}
    name: one_account_per_email     # about the whole table: judged when a run has taken everything
    because: who forgets a password must find one account
"""
_SUITES = {"orders.yaml": _ORDERS, "customers.yaml": _CUSTOMERS}


def write(folder: Path) -> None:
    """Put the suites into a folder; those that are there stay as they are: a user may have mended them."""
    folder.mkdir(exist_ok=True)
    for name, text in _SUITES.items():
        if not (folder / name).exists():
            (folder / name).write_text(text)
