"""The files of a day: a bill and a settlement as text, a bank statement as camt.053, in the layouts of this test."""

from __future__ import annotations

from typing import Any

BILL_LAYOUT = """
columns: {txn: txn, op: op, kind: kind, status: status, amount: amount, fee: fee}
ccy: USD
control_columns: {count: count, total: amount}
"""
SETTLEMENT_LAYOUT = """
columns: {kind: kind, txn: txn, amount: amount, fee: fee, ref: ref}
ccy: USD
"""


def bill(*rows: tuple[str, str, int, int]) -> str:
    """Rows of reference, our number, amount and fee in minor units, with their totals."""
    lines = ["txn,op,kind,status,amount,fee"]
    lines += [f"{txn},{op},PAY,SUCCESS,{major(amount)},{major(fee)}" for txn, op, amount, fee in rows]
    lines += ["count,total", f"{len(rows)},{major(sum(row[2] for row in rows))}"]
    return "\n".join(lines) + "\n"


def settlement(payout: str, paid: int, *rows: tuple[str, int, int]) -> str:
    """Rows of reference, amount and fee, then the payout that they make."""
    lines = ["kind,txn,amount,fee,ref"]
    lines += [f"PAY,{txn},{major(amount)},{major(fee)}," for txn, amount, fee in rows]
    return "\n".join([*lines, f"PAYOUT,,{major(paid)},,{payout}"]) + "\n"


def major(amount: int) -> str:
    return f"{amount // 100}.{amount % 100:02}"


def statement(name: str, opening: int, *entries: tuple[str, int]) -> str:
    """Credits of a reference and an amount each."""
    closing = opening + sum(amount for _, amount in entries)
    booked = "".join(
        f"<Ntry><Amt Ccy='USD'>{major(amount)}</Amt><CdtDbtInd>CRDT</CdtDbtInd><Sts>BOOK</Sts><AcctSvcrRef>{name}-{place}</AcctSvcrRef>"
        f"<NtryDtls><TxDtls><Refs><EndToEndId>{ref}</EndToEndId></Refs></TxDtls></NtryDtls></Ntry>"
        for place, (ref, amount) in enumerate(entries)
    )
    return (
        "<?xml version='1.0' encoding='UTF-8'?><Document xmlns='urn:iso:std:iso:20022:tech:xsd:camt.053.001.02'><BkToCstmrStmt>"
        f"<GrpHdr><MsgId>{name}</MsgId></GrpHdr><Stmt><Id>{name}</Id>{_balance('OPBD', opening)}{_balance('CLBD', closing)}{booked}"
        "</Stmt></BkToCstmrStmt></Document>"
    )


def _balance(kind: str, amount: Any) -> str:
    return f"<Bal><Tp><CdOrPrtry><Cd>{kind}</Cd></CdOrPrtry></Tp><Amt Ccy='USD'>{major(amount)}</Amt><CdtDbtInd>CRDT</CdtDbtInd></Bal>"
