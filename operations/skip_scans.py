"""Distinct values of the backlog by one probe of an index each, where `SELECT DISTINCT` would read the whole index."""


def skip_scan(column: str, condition: str) -> str:
    """A query for the distinct values of `column`, the first of a partial index with that `condition`."""
    return f"""
WITH RECURSIVE found(value) AS (
    (SELECT {column}
       FROM jobs_backlogrecord
      WHERE {condition}
      ORDER BY {column}
      LIMIT 1)
 UNION ALL
    SELECT (SELECT {column}
              FROM jobs_backlogrecord
             WHERE {condition} AND {column} > found.value
             ORDER BY {column}
             LIMIT 1)
      FROM found
     WHERE found.value IS NOT NULL
)
SELECT value
  FROM found
 WHERE value IS NOT NULL
"""
