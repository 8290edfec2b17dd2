-- schema: books
-- Double entry, held for each statement instead of each row. The postings of an entry come in one statement, which must add up to nothing
-- by itself, and before their entry, which is refused without any. So what is there balances at every moment, whoever writes beside
-- it; and as before, a posting without its entry cannot be committed.

DROP TRIGGER balanced ON ledger_entries;
DROP TRIGGER balanced ON postings;
DROP FUNCTION require_balance();

CREATE FUNCTION require_balance() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    wrong record;
BEGIN
    SELECT order_id, seq, line, count(*) AS sides, sum(amount) AS total INTO wrong
      FROM posted GROUP BY order_id, seq, line HAVING sum(amount) <> 0 OR count(*) < 2 LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'entry %/%/% has % postings that add up to %', wrong.order_id, wrong.seq, wrong.line, wrong.sides, wrong.total
            USING ERRCODE = 'check_violation', HINT = 'post debits and credits of one entry in one statement';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER balanced AFTER INSERT ON postings REFERENCING NEW TABLE AS posted
    FOR EACH STATEMENT EXECUTE FUNCTION require_balance();

-- One probe of the key for each entry: a plan that was made while the table was small must not read the whole of a large one.
CREATE FUNCTION require_postings() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    wrong record;
BEGIN
    SELECT order_id, seq, line INTO wrong FROM entered WHERE NOT EXISTS (
        SELECT FROM postings own WHERE (own.order_id, own.seq, own.line) = (entered.order_id, entered.seq, entered.line) OFFSET 0
    ) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'entry %/%/% has no postings that add up to nothing', wrong.order_id, wrong.seq, wrong.line
            USING ERRCODE = 'check_violation', HINT = 'post debits and credits in a statement before that of their entry';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER balanced AFTER INSERT ON ledger_entries REFERENCING NEW TABLE AS entered
    FOR EACH STATEMENT EXECUTE FUNCTION require_postings();
