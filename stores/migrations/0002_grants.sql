-- schema: books
-- Who may do what: `concord_projector` writes the books and may never change what is immutable, `concord_reader` reads.
-- Log in as members of these roles. The trigger holds for the owner of the tables as well.

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'concord_projector') THEN
        CREATE ROLE concord_projector NOLOGIN;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'concord_reader') THEN
        CREATE ROLE concord_reader NOLOGIN;
    END IF;
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO concord_projector, concord_reader', current_schema());
    EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA %I TO concord_reader', current_schema());
    EXECUTE format('GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA %I TO concord_projector', current_schema());
END $$;
REVOKE UPDATE ON decisions, ledger_entries, postings, discrepancy_steps FROM concord_projector;
