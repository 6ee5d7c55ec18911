-- The attempts as the admin lists them: Django's admin cannot show a table with a composite key.
CREATE OR REPLACE VIEW jobs_attempt_entry AS
SELECT record_id || '-' || number AS id,
       record_id, number, queue, worker_id, started_at, ended_at, outcome, error, facts
  FROM jobs_attempt;
