"""Every reader on files of our own making: what it reads, what it refuses, and that nothing else ever happens (R-111 to R-117, R-187)."""

from __future__ import annotations

import gzip
import io
import random
import re
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec import convert

from streams.domain.contract import Layout
from streams.domain.lines import Balances, BankEntry, BillRow, Control, Payout, RejectedRow, SettlementRow
from streams.statements import alipay, camt, mt940, parsers, table, unionpay, wechatpay
from streams.statements.refusal import Refused
from tests.support import day

FIXTURES = Path(__file__).parents[4] / "shared" / "fixtures"


def read(name: str, content: bytes, kind: str, layout: str = "") -> list[Any]:
    return list(parsers.read(name, io.BytesIO(content), kind, layout))


# -- text by contract

LAYOUT = {"columns": {"op": "op", "txn": "txn", "amount": "amount", "fee": "fee"}, "ccy": "USD", "amount_unit": "major"}
HEADER = "op,txn,amount,fee"


def by_layout(*lines: str, encoding: str = "utf-8", **changes: Any) -> list[Any]:
    layout = convert({**LAYOUT, **changes}, Layout)
    return list(table.read(io.BytesIO("\r\n".join(lines).encode(encoding)), layout))


def test_a_row_is_read_exactly_and_its_ids_are_not_touched():
    (row,) = by_layout(HEADER, " P1 ,X/1,19.99,0.205")
    assert (row.operation_no, row.transaction, row.amount, row.fee, row.fee_text) == (" P1 ", "X/1", 1999, 20, "0.205")


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("P1,X1,ten,0", "amount"),
        ("P1,X1,1.001,0", "amount"),
        ('P1,X1,"1,00",0', "amount"),
        ("P1,X1,1.00", "row"),
        ("P1,X1,1.00,0,more", "row"),
        ("P1,X1,,0", "amount"),
        ("P1,X1,1.00,x", "fee"),
    ],
)
def test_a_row_that_cannot_be_read_is_named_by_its_line_and_the_others_count(line, field):
    first, bad, last = by_layout(HEADER, "P0,X0,1,0", line, "P2,X2,2,0")
    assert isinstance(bad, RejectedRow)
    assert (bad.line, bad.field) == (3, field)
    assert (first.amount, last.amount) == (100, 200)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["op,txn,fee", "P1,X1,0"], "header"),
        ([HEADER], "empty"),
        ([], "header"),
        ([HEADER, "P1,X1,broken,0"], "empty"),
    ],
)
def test_a_file_of_another_layout_is_refused_as_a_whole(lines, reason):
    with pytest.raises(Refused) as refused:
        by_layout(*lines)
    assert refused.value.reason == reason


def test_encodings_are_tried_strictly_and_in_their_order():
    named = ["op,txn,amount,shop", "P1,X1,1.00,商户甲"]
    columns = {"op": "op", "txn": "txn", "amount": "amount", "shop": "text"}
    for encoding in ("utf-8", "utf-8-sig", "gbk"):
        (row,) = by_layout(*named, encoding=encoding, columns=columns, encodings=["UTF-8", "GBK"])
        assert row.amount == 100
    with pytest.raises(Refused) as refused:
        by_layout(*named, encoding="gbk", columns=columns)
    assert refused.value.reason == "encoding"


def test_a_cut_off_archive_is_refused():
    whole = gzip.compress("\n".join([HEADER, "P1,X1,1,0"] * 50).encode())
    assert len(list(table.read(io.BytesIO(whole), convert(LAYOUT, Layout)))) > 1
    with pytest.raises(Refused) as refused:
        list(table.read(io.BytesIO(whole[:-9]), convert(LAYOUT, Layout)))
    assert refused.value.reason == "compression"


def test_totals_are_compared_and_are_no_transaction():
    control = {"control_columns": {"count": "count", "total": "amount", "fees": "fee"}}
    lines = [HEADER, "P1,X1,1.50,0.01", "P2,X2,2.50,0.02", "count,total,fees"]
    *rows, count, total, fees = by_layout(*lines, "2,4.00,0.03", **control)
    assert len(rows) == 2
    assert [(one.name, one.stated, one.ties) for one in (count, total, fees)] == [
        ("count", 2, True),
        ("amount", 400, True),
        ("fee", 3, True),
    ]
    *_, total, _ = by_layout(*lines, "2,4.01,0.03", **control)
    assert (total.stated, total.read, total.ties) == (401, 400, False)


def test_a_quiet_day_states_its_nothing():
    control = {"control_columns": {"count": "count"}}
    assert [one.stated for one in by_layout(HEADER, "count", "0", **control)] == [0]


@pytest.mark.parametrize(
    ("text", "decimal", "group", "amount"),
    [
        ('"1,234.50"', ".", ",", 123450),
        ("1.355,90", ",", ".", 135590),
        ("1.000", ",", ".", 100000),
        ("-3.00", ".", None, -300),
    ],
)
def test_figures_are_written_as_the_layout_says(text, decimal, group, amount):
    delimiter = ";" if decimal == "," else ","
    (row,) = by_layout(
        HEADER.replace(",", delimiter), delimiter.join(["P1", "X1", text, "0"]), decimal=decimal, group=group, delimiter=delimiter
    )  # fmt: skip
    assert row.amount == amount


# -- camt


def entry(amount: str = "1.00", more: str = "", status: str = "<Sts>BOOK</Sts>") -> str:
    return f"<Ntry><Amt Ccy='EUR'>{amount}</Amt><CdtDbtInd>CRDT</CdtDbtInd>{status}{more}</Ntry>"


def document(content: str, version: str = "053.001.02", head: str = "<?xml version='1.0' encoding='UTF-8'?>") -> bytes:
    root = f"<Document xmlns='urn:iso:std:iso:20022:tech:xsd:camt.{version}'>"
    return f"{head}{root}<A><Stmt><Id>S1</Id>{content}</Stmt></A></Document>".encode()


@pytest.mark.parametrize("version", ["01", "02", "04", "06", "07", "08", "10", "13"])
def test_every_version_is_read_alike(version):
    status = "<Sts><Cd>BOOK</Cd></Sts>" if int(version) >= 8 else "<Sts>BOOK</Sts>"
    found, balances = read("camt/1", document(entry(status=status), f"053.001.{version}"), "CAMT053")
    assert (found.amount, found.status, found.statement) == (100, "BOOK", "S1")
    assert isinstance(balances, Balances)


def test_details_carry_their_own_amounts_references_charges_and_what_was_instructed():
    detail = (
        "<NtryDtls><TxDtls><Refs><EndToEndId>E1</EndToEndId></Refs><AmtDtls><InstdAmt><Amt Ccy='CHF'>2.00</Amt></InstdAmt>"
        "<TxAmt><Amt Ccy='EUR'>1.10</Amt></TxAmt></AmtDtls><Chrgs><Amt Ccy='EUR'>0.10</Amt></Chrgs><RmtInf><Ustrd>a</Ustrd><Ustrd>b</Ustrd>"
        "</RmtInf></TxDtls><TxDtls><Refs><EndToEndId>NOTPROVIDED</EndToEndId></Refs><Amt Ccy='EUR'>0.90</Amt></TxDtls></NtryDtls>"
    )
    found, _ = read("camt/1", document(entry("2.00", detail)), "CAMT053")
    first, second = found.details
    assert (first.amount, first.charges, first.references) == (110, 10, ("E1", "ab"))
    assert (first.instructed_amount, first.instructed_currency) == (200, "CHF")
    assert (second.amount, second.references) == (90, ())


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ("<Ntry><CdtDbtInd>CRDT</CdtDbtInd></Ntry>", "Amt"),
        (entry("1.001"), "Amt"),
        (entry("-1"), "Amt"),
        (entry().replace("CRDT", "BOTH"), "CdtDbtInd"),
        (entry().replace("EUR", "XAU"), "Amt"),
        (entry(status="<Sts>MAYBE</Sts>"), "Sts"),
        (entry(more="<BookgDt><Dt>2025-13-01</Dt></BookgDt>"), "BookgDt"),
    ],
)
def test_an_entry_that_cannot_be_read_is_named_by_its_place(content, field):
    good, bad, _ = read("camt/1", document(entry() + content), "CAMT053")
    assert isinstance(good, BankEntry)
    assert (bad.line, bad.field) == (2, field)


@pytest.mark.parametrize(
    "content",
    [
        document(entry(), head="<?xml version='1.0'?><!DOCTYPE x [<!ENTITY e SYSTEM 'file:///etc/passwd'>]>"),
        document(entry(), head="<?xml version='1.0'?><!DOCTYPE lolz [<!ENTITY a 'ha'><!ENTITY b '&a;&a;'>]>"),
        document(entry())[:-20],
        document(entry()).replace(b"camt.053", b"pain.001"),
        document(entry(), head="<?xml version='1.0' encoding='UTF-8'?>").replace(b"S1", "é".encode("latin-1")),
        b"",
        b"<Document/>",
        document(entry(), "054.001.02"),
    ],
)
def test_hostile_broken_and_foreign_xml_is_refused(content):
    with pytest.raises(Refused):
        list(camt.read(io.BytesIO(content), "CAMT053"))


def test_memory_is_that_of_one_entry():
    """A statement of any length: what was read is dropped."""
    size = 20_000
    found = camt.read(io.BytesIO(document(entry() * size)), "CAMT053")
    assert sum(isinstance(one, BankEntry) for one in found) == size


# -- MT940

MT940 = """{1:F01}{2:I940}{4:
:20:ST1
:25:DE1
:28C:1/1
:60F:C250302EUR100,00
:61:2503030303C12,50NTRFPO-1//BANK1
:86:166?20EREF+PO-9?21SVWZ+hello
:61:2503030303RC2,NTRFNONREF//BANK2
:61:250303D1,1NMSCNONREF
:62F:C250303EUR109,40
-}"""


def test_mt940_reads_marks_references_and_balances():
    first, second, third, balances = list(mt940.statement(io.BytesIO(MT940.encode())))
    assert (first.amount, first.direction, first.account_ref, first.references) == (
        1250,
        "CRDT",
        "BANK1",
        ("PO-9", "PO-1"),
    )
    assert (second.amount, second.direction, second.reversal) == (200, "DBIT", True)
    assert (third.amount, third.direction, third.references) == (110, "DBIT", ())
    assert (balances.opening, balances.closing) == (10000, 10940)
    assert str(first.booked_on) == "2025-03-03"


def test_a_movement_that_is_none_is_named_and_a_broken_balance_refuses_the_file():
    *_, bad, _ = list(mt940.statement(io.BytesIO(MT940.replace("D1,1N", "D1.1N").encode())))
    assert isinstance(bad, RejectedRow)
    for broken in (MT940.replace(":60F:C", ":60F:X"), "hello", ""):
        with pytest.raises(Refused):
            list(mt940.statement(io.BytesIO(broken.encode())))


# -- channels' own

WECHAT = (
    "交易时间,微信订单号,商户订单号,交易状态,货币种类,应结订单金额,微信退款单号,商户退款单号,退款金额,退款状态,手续费,"
    "订单金额,申请退款金额"
)
WECHAT_ROWS = (
    "`2025-03-03 10:00:00,`4200001,`P1,`SUCCESS,`CNY,`9.00,`0,`0,`0.00,`,`0.06000,`10.00,`0.00",
    "`2025-03-03 11:00:00,`4200001,`P1,`REFUND,`CNY,`0.00,`5000001,`R1,`4.00,`SUCCESS,`-0.02000,`0.00,`4.00",
)
WECHAT_TOTALS = (
    "总交易单数,应结订单总金额,退款总金额,手续费总金额,订单总金额,申请退款总金额",
    "`2.0,`9.00,`4.00,`0.04000,`10.00,`4.00",
)


def wechat(*rows: str, totals: tuple[str, ...] = WECHAT_TOTALS) -> list[Any]:
    return list(wechatpay.bill(io.BytesIO("\r\n".join((WECHAT, *rows, *totals)).encode("utf-8-sig"))))


def test_a_wechat_bill_reads_refunds_beside_their_payments_and_ties():
    pay, refund, *controls = wechat(*WECHAT_ROWS)
    assert (pay.kind, pay.transaction, pay.operation_no, pay.amount, pay.fee) == ("PAY", "4200001", "P1", 1000, 6)
    assert (refund.kind, refund.transaction, refund.operation_no, refund.amount, refund.fee) == (
        "REFUND",
        "5000001",
        "R1",
        400,
        -2,
    )
    assert len(controls) == 6
    assert all(one.ties for one in controls)


def test_a_wechat_bill_that_is_cut_off_or_of_another_count_is_noticed():
    with pytest.raises(Refused):
        wechat(*WECHAT_ROWS, totals=())
    controls = [one for one in wechat(WECHAT_ROWS[0]) if isinstance(one, Control)]
    assert [one.name for one in controls if not one.ties] == ["count", "退款金额", "手续费", "申请退款金额"]


ALIPAY = """#支付宝业务明细查询
#账号：[20880000000000000156]
#起始日期：[2025年03月03日 00:00:00]   终止日期：[2025年03月04日 00:00:00]
#-----------------------------------------业务明细列表----------------------------------------
支付宝交易号,商户订单号,业务类型,商品名称,完成时间,对方账户,订单金额（元）,商家实收（元）,退款批次号/请求号,服务费（元）
2025A\t,P1\t,交易,tea,2025-03-03 10:00:00,王*(w***@x.cn),10.00,10.00,\t,-0.06
2025A\t,P1\t,退款,tea,2025-03-03 11:00:00,王*(w***@x.cn),-4.00,-4.00,R1\t,0.00
#-----------------------------------------业务明细列表结束------------------------------------
#交易合计：1笔，商家实收共10.00元，商家优惠共0.00元
#退款合计：1笔，商家实收退款共-4.00元，商家优惠退款共0.00元
#导出时间：[2025年03月04日 09:00:00]
"""


def zipped(text: str, name: str = "20880000_20250303_业务明细.csv") -> bytes:
    """As Alipay packs it: names in GBK, without the flag that says UTF-8."""
    found = io.BytesIO()
    with zipfile.ZipFile(found, "w", zipfile.ZIP_DEFLATED) as archive:
        plain = "N" * len(name.encode("gbk"))
        archive.writestr(plain, text.replace("\n", "\r\n").encode("gbk"))
    return found.getvalue().replace(plain.encode(), name.encode("gbk"))


def test_an_alipay_bill_reads_out_of_its_archive_and_names_nobody():
    pay, refund, *controls = list(alipay.trade(io.BytesIO(zipped(ALIPAY))))
    assert (pay.transaction, pay.operation_no, pay.amount, pay.fee) == ("2025A", "P1", 1000, 6)
    assert (refund.kind, refund.transaction, refund.operation_no, refund.amount) == ("REFUND", None, "R1", -400)
    assert refund.parent_transaction == "2025A"
    assert len(controls) == 4
    assert all(one.ties for one in controls)
    assert "王" not in repr((pay, refund))


def test_an_archive_that_is_no_bill_is_refused():
    whole = zipped(ALIPAY)
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.csv", b"\0" * 20_000_000)
    for content in (whole[:-30], whole.replace(b"PK\x01\x02", b"PK\x01\x09"), bomb.getvalue()):
        with pytest.raises(Refused):
            list(alipay.trade(io.BytesIO(content)))


ADYEN = (
    "Merchant Reference,Psp Reference,Type,Modification Reference,Creation Date,Gross Currency,Gross Debit (GC),Gross Credit (GC),"
    "Net Currency,Net Debit (NC),Net Credit (NC),Commission (NC),Markup (NC),Scheme Fees (NC),Interchange (NC),Batch Number\n"
    "P1,PSP1,Settled,M1,2025-03-03 10:00:00,EUR,,31.15,EUR,,30.6,0.3,,0.15,0.1,380\n"
    "P1,PSP1,Refunded,M2,2025-03-03 11:00:00,EUR,10,,EUR,10,,,,,,380\n"
    ",,Fee,F1,2025-03-04 00:00:00,EUR,,,EUR,0.6,,,,,,380\n"
    ',,MerchantPayout,"TX380XT batch 380, shop",2025-03-04 00:00:00,,,,EUR,20,,,,,,380\n'
)


def test_an_adyen_batch_is_closed_by_its_payout():
    pay, refund, fee, payout, net = read("adyen-settlement/1", ADYEN.encode(), "SETTLEMENT")
    assert (pay.kind, pay.amount, pay.fee, pay.net, pay.transaction) == ("PAY", 3115, 55, 3060, "PSP1")
    assert (refund.kind, refund.amount, refund.transaction) == ("REFUND", -1000, "M2")
    assert (fee.kind, fee.amount) == ("FEE", -60)
    assert isinstance(payout, Payout)
    assert (payout.ref, payout.amount) == ("TX380XT", 2000)
    assert (net.name, net.ties) == ("net EUR", True)


def test_an_adyen_row_whose_fees_do_not_explain_it_is_named():
    found = read("adyen-settlement/1", ADYEN.replace("30.6,0.3", "30.5,0.3").encode(), "SETTLEMENT")
    assert [one.field for one in found if isinstance(one, RejectedRow)] == ["Net Credit (NC)"]


STRIPE = (
    "balance_transaction_id,created_utc,currency,gross,fee,net,reporting_category,source_id,refund_id,payment_intent_id,automatic_payout_id\n"
    "txn_1,2025-03-03 10:00:00,usd,10.00,0.59,9.41,charge,ch_1,,pi_1,po_1\n"
    "txn_2,2025-03-03 11:00:00,usd,-4.00,0.00,-4.00,refund,re_1,re_1,pi_1,po_1\n"
)


def test_a_stripe_balance_lists_what_a_payout_pays():
    pay, refund, payout = read("stripe-balance/1", STRIPE.encode(), "SETTLEMENT")
    assert (pay.amount, pay.fee, pay.transaction) == (1000, 59, "pi_1")
    assert (refund.amount, refund.transaction) == (-400, "re_1")
    assert (payout.ref, payout.amount, payout.currency) == ("po_1", 541, "USD")


OFX1 = """OFXHEADER:100
DATA:OFXSGML

<OFX><BANKMSGSRSV1><STMTTRNRS><STMTRS><CURDEF>USD<BANKACCTFROM><ACCTID>42</BANKACCTFROM><BANKTRANLIST>
<STMTTRN><TRNTYPE>CREDIT<DTPOSTED>20250303120000[-5:EST]<TRNAMT>12.50<FITID>F1<MEMO>PO-1 &amp; more</STMTTRN>
<STMTTRN><TRNTYPE>DEBIT<DTPOSTED>20250303<TRNAMT>-2.00<FITID>F2</STMTTRN>
<STMTTRN><TRNTYPE>DEBIT<DTPOSTED>20250303<TRNAMT>-2.00</STMTTRN>
</BANKTRANLIST><LEDGERBAL><BALAMT>110.50<DTASOF>20250303</LEDGERBAL></STMTRS></STMTTRNRS></BANKMSGSRSV1></OFX>
"""


def test_ofx_of_both_generations_reads_alike():
    xml = "<?xml version='1.0'?><?OFX OFXHEADER='200'?>" + OFX1.partition("\n\n")[2]
    for leaf in ("CURDEF", "ACCTID", "TRNTYPE", "DTPOSTED", "TRNAMT", "FITID", "MEMO", "BALAMT", "DTASOF"):
        xml = re.sub(rf"<{leaf}>([^<\n]*)", rf"<{leaf}>\1</{leaf}>", xml)
    for content in (OFX1, xml):
        first, second, bad, balances = read("ofx/1", content.encode(), "OFX")
        assert (first.amount, first.direction, first.key, first.references) == (1250, "CRDT", "F1", ("PO-1 & more",))
        assert (second.amount, second.direction) == (200, "DBIT")
        assert bad.field == "FITID"
        assert balances.closing == 11050


@pytest.mark.parametrize("content", ["", "hello", "<!DOCTYPE x [<!ENTITY a 'b'>]><OFX>", OFX1[:-60]])
def test_what_is_no_whole_ofx_is_refused(content):
    with pytest.raises(Refused):
        read("ofx/1", content.encode(), "OFX")


PAYPAL = (
    "Date,Time,Type,Status,Currency,Gross,Fee,Net,Transaction ID,Invoice Number,Receipt ID\n"
    '03/03/2025,10:00:00,Express Checkout Payment,Completed,USD,"1,653.75",-0.59,"1,653.16",T1,P1,\n'
    "03/03/2025,11:00:00,Payment Refund,Completed,USD,-4.00,0.10,-3.90,T2,R1,\n"
    "03/03/2025,12:00:00,General Currency Conversion,Completed,USD,1.00,0.00,1.00,T3,,\n"
    "03/03/2025,13:00:00,Express Checkout Payment,Pending,USD,7.00,0.00,7.00,T4,P4,\n"
)


def test_a_paypal_export_reads_in_its_own_locale_or_not_at_all():
    pay, refund, aside = read("paypal-activity/1", PAYPAL.encode(), "SETTLEMENT")
    assert (pay.kind, pay.amount, pay.fee, pay.net, pay.operation_no) == ("PAY", 165375, 59, 165316, "P1")
    assert (refund.kind, refund.amount, refund.fee, aside.kind) == ("REFUND", -400, -10, "OTHER")
    comma = PAYPAL.splitlines()[0] + '\n03/03/2025,10:00:00,Pago,Completed,EUR,"4.626,81","-0,59","4.626,22",T1,P1,\n'
    (spanish,) = read("paypal-activity/1", comma.encode(), "SETTLEMENT")
    assert (spanish.amount, spanish.fee) == (462681, 59)
    mixed = PAYPAL.replace("-4.00", '"-4,00"')
    with pytest.raises(Refused):
        read("paypal-activity/1", mixed.encode(), "SETTLEMENT")
    with pytest.raises(Refused):
        read("paypal-activity/1", PAYPAL.partition("\n")[0].encode(), "SETTLEMENT")


def zm(code: str, amount: int, query: str, order: str, *, fee: str, net: str) -> bytes:
    cells = ["" for _ in unionpay.ZM]
    for place, text in ((0, code), (6, f"{amount:012}"), (9, query), (11, order), (15, fee), (16, net), (24, "商户")):
        cells[place] = text
    padded = [cell.encode("gbk").ljust(width) for cell, width in zip(cells, unionpay.ZM, strict=True)]
    return b" ".join(padded) + b"\r\n"


def test_a_unionpay_file_is_cut_by_bytes():
    content = zm("S22", 1000, "Q1", "P1", fee="D00000000006", net="C00000000994") + zm(
        "S30", 400, "Q2", "R1", fee="C00000000000", net="D00000000400"
    )
    pay, refund = read("unionpay-zm/1", content, "SETTLEMENT")
    assert (pay.kind, pay.amount, pay.fee, pay.net, pay.transaction, pay.operation_no) == (
        "PAY",
        1000,
        6,
        994,
        "Q1",
        "P1",
    )
    assert (refund.kind, refund.amount, refund.net) == ("REFUND", -400, -400)
    wrong = content.split(b"\r\n")[1].replace(b"000000000400", b"00000000x400", 1)
    short, bad = read("unionpay-zm/1", content[:300] + b"\n" + wrong, "SETTLEMENT")
    assert (short.field, bad.field) == ("row", "amount")


# -- all of them

PLAIN = '{"columns":{"txn":"txn","op":"op","amount":"amount"},"ccy":"USD"}'
SAMPLES: dict[str, tuple[bytes, str, str]] = {
    "table/1": (day.bill(("X1", "P1", 1000, 6)).encode(), "CHANNEL_BILL", PLAIN),
    "camt/1": (document(entry("2.00")), "CAMT053", ""),
    "mt940/1": (MT940.encode(), "MT940", ""),
    "wechatpay-bill/1": ("\r\n".join((WECHAT, *WECHAT_ROWS, *WECHAT_TOTALS)).encode("utf-8-sig"), "CHANNEL_BILL", ""),
    "alipay-trade/1": (zipped(ALIPAY), "CHANNEL_BILL", ""),
    "adyen-settlement/1": (ADYEN.encode(), "SETTLEMENT", ""),
    "stripe-balance/1": (STRIPE.encode(), "SETTLEMENT", ""),
    "paypal-activity/1": (PAYPAL.encode(), "SETTLEMENT", ""),
    "ofx/1": (OFX1.encode(), "OFX", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", SAMPLES)
def test_a_file_shows_by_itself_what_it_is(name):
    content, kind, layout = SAMPLES[name]
    assert parsers.recognised(io.BytesIO(content)) == (None if layout else (name, kind))


@pytest.mark.parametrize("name", SAMPLES)
def test_whatever_is_changed_in_a_file_it_is_read_or_refused_by_name(name):
    content, kind, layout = SAMPLES[name]
    assert any(isinstance(one, BillRow | SettlementRow | BankEntry) for one in read(name, content, kind, layout))
    chance = random.Random(name)
    for _ in range(400):
        place = chance.randrange(len(content))
        other = bytes([chance.randrange(256)]) * chance.choice([0, 1, 1, 2])
        changed = content[:place] + other + content[place + chance.choice([0, 1, 1, 40]) :]
        with suppress(Refused):
            read(name, changed, kind, layout)


FILES = ("wechatpay/bill.ALL.csv", *(f"camt/{name}" for name in (
    "genkgo_camt052.v2.xml", "genkgo_camt053.v2.minimal.xml", "genkgo_camt053.v2.multi.statement.xml", "genkgo_camt053.v4.xml",
    "genkgo_camt053.v8.xml", "genkgo_camt054.v4.xml",
)))  # fmt: skip


@pytest.mark.skipif(not FIXTURES.is_dir(), reason="there is no shared folder with samples beside this checkout")
@pytest.mark.parametrize("name", FILES)
def test_a_public_sample_reads(name):
    with (FIXTURES / name).open("rb") as stream:
        chosen = parsers.recognised(stream)
        assert chosen is not None
        found = list(parsers.read(chosen.parser, stream, chosen.kind))
    assert not any(isinstance(one, RejectedRow) for one in found)
    assert all(one.ties for one in found if isinstance(one, Control))


@pytest.mark.skipif(not FIXTURES.is_dir(), reason="there is no shared folder with samples beside this checkout")
def test_the_public_hostile_sample_is_refused():
    with (FIXTURES / "wechatpay" / "v2_invalid.xxe_injection.sample.xml").open("rb") as stream:
        chosen = parsers.recognised(stream)
        assert chosen is not None
        with pytest.raises(Refused):
            list(parsers.read(chosen.parser, stream, chosen.kind))
