-- Room for updates in place, and vacuum before dead rows pile up at the head of the claim index.
ALTER TABLE jobs_backlogrecord SET (
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 0
);
