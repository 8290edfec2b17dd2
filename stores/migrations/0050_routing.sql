-- Choosing the channel: books of routes, what was decided by them, channels that are passed over for a while, and what was seen of
-- channels. Nothing here is money: the worker decides without it, and all but the books and the decisions may be lost.

CREATE TABLE route_books (
    version   integer     PRIMARY KEY CHECK (version > 0),
    book      jsonb       NOT NULL CHECK (jsonb_typeof(book) = 'object'),
    loaded_at timestamptz NOT NULL,
    loaded_by text        NOT NULL CHECK (loaded_by ~ '\S' AND length(loaded_by) <= 128),
    reason    text        NOT NULL CHECK (length(reason) <= 1000)
);
COMMENT ON TABLE route_books IS 'every version of the whole configuration, as it was loaded (R-120)';

CREATE TABLE route_activations (
    seq          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    version      integer     NOT NULL REFERENCES route_books,
    activated_at timestamptz NOT NULL,
    activated_by text        NOT NULL CHECK (activated_by ~ '\S' AND length(activated_by) <= 128),
    reason       text        NOT NULL CHECK (length(reason) <= 1000)
);
COMMENT ON TABLE route_activations IS 'the last one says which book holds';

CREATE TABLE route_decisions (
    id           text        PRIMARY KEY CHECK (length(id) BETWEEN 1 AND 256),
    decided_at   timestamptz NOT NULL,
    purpose      text        NOT NULL CHECK (purpose IN ('create', 'fallback')),
    merchant     text        NOT NULL,
    order_id     text        NOT NULL,
    payment_no   text        NOT NULL,
    book_version integer     NOT NULL REFERENCES route_books,
    ask          jsonb       NOT NULL,
    health       jsonb       NOT NULL,
    downgrades   jsonb       NOT NULL,
    routing      jsonb       NOT NULL,
    channel      text,
    failure      text        CHECK (failure IN ('no_channel_after_filters', 'all_channel_failed')),
    CONSTRAINT a_choice_or_a_failure CHECK ((channel IS NULL) = (failure IS NOT NULL))
);
COMMENT ON TABLE route_decisions IS 'what was asked, what was known, who was a candidate on which terms, who was dropped and why, and the choice';
CREATE INDEX route_decisions_by_time ON route_decisions (decided_at);
CREATE INDEX route_decisions_of_payment ON route_decisions (merchant, payment_no);

CREATE TABLE channel_downgrades (
    attempt     text        PRIMARY KEY CHECK (length(attempt) BETWEEN 1 AND 512),
    channel     text        NOT NULL,
    why         text        NOT NULL,
    currency    text,
    amount_from bigint      NOT NULL CHECK (amount_from >= 0),
    starts_at   timestamptz NOT NULL,
    until       timestamptz NOT NULL CHECK (until > starts_at)
);
COMMENT ON TABLE channel_downgrades IS 'a channel is passed over after an error that would come again (R-162); each row is one trigger (R-164)';
CREATE INDEX channel_downgrades_by_end ON channel_downgrades (until);

CREATE TABLE channel_health (
    channel          text        NOT NULL,
    band             text        NOT NULL,
    part             integer     NOT NULL CHECK (part >= 0),
    as_of            timestamptz NOT NULL,
    succeeded        bigint      NOT NULL CHECK (succeeded >= 0),
    failed           bigint      NOT NULL CHECK (failed >= 0),
    unknown          bigint      NOT NULL CHECK (unknown >= 0),
    latency_ms_total bigint      NOT NULL CHECK (latency_ms_total >= 0),
    failures         jsonb       NOT NULL,
    PRIMARY KEY (channel, band, part, as_of)
);
COMMENT ON TABLE channel_health IS 'the last half hour of a channel account as it was seen then, by amount band and part of the stream; approximate';
COMMENT ON COLUMN channel_health.unknown IS 'the stock of payments without a result; neither success nor failure';
COMMENT ON COLUMN channel_health.latency_ms_total IS 'from the submit to the success, over those that succeeded';
CREATE INDEX channel_health_by_time ON channel_health (as_of);

CREATE TABLE channel_costs (
    channel        text        NOT NULL,
    currency       text        NOT NULL,
    day            date        NOT NULL,
    contract_ppm   integer     CHECK (contract_ppm >= 0),
    contract_fixed bigint      CHECK (contract_fixed >= 0),
    succeeded      bigint      NOT NULL CHECK (succeeded >= 0),
    success_volume numeric     NOT NULL,
    fees           numeric     NOT NULL,
    refreshed_at   timestamptz NOT NULL,
    PRIMARY KEY (channel, currency, day)
);
COMMENT ON TABLE channel_costs IS 'per day of creation, UTC: the contract''s terms as the book had them, and what channels said they took (R-119, R-165)';
COMMENT ON COLUMN channel_costs.contract_ppm IS 'of the amount; null: no book offered the channel when it was reckoned';

CREATE FUNCTION routing_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% of % is refused: what was written there stays', TG_OP, TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER routing_stays BEFORE UPDATE OR DELETE OR TRUNCATE ON route_books FOR EACH STATEMENT EXECUTE FUNCTION routing_stays();
CREATE TRIGGER routing_stays BEFORE UPDATE OR DELETE OR TRUNCATE ON route_activations FOR EACH STATEMENT EXECUTE FUNCTION routing_stays();
CREATE TRIGGER routing_stays BEFORE UPDATE OR DELETE OR TRUNCATE ON route_decisions FOR EACH STATEMENT EXECUTE FUNCTION routing_stays();
CREATE TRIGGER routing_stays BEFORE UPDATE OR DELETE OR TRUNCATE ON channel_downgrades FOR EACH STATEMENT EXECUTE FUNCTION routing_stays();

-- `concord_router` reads what `concord_reader` reads, and keeps what it decided and saw; it writes no route book. What is immutable it
-- may only add.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'concord_router') THEN
        CREATE ROLE concord_router NOLOGIN;
    END IF;
END $$;
GRANT SELECT ON route_books, route_activations, route_decisions, channel_downgrades, channel_health, channel_costs
    TO concord_reader;
GRANT concord_reader TO concord_router;
GRANT INSERT ON route_decisions, channel_downgrades, channel_health, channel_costs TO concord_router;
GRANT UPDATE ON channel_costs, channel_health TO concord_router;
GRANT DELETE ON channel_health TO concord_router;
