-- Pages are read in the order of an index. Where the server knows nothing of a table yet, it would sort the whole range
-- for each of them.
-- name: set_up
SELECT
    set_config('statement_timeout', :statement_timeout, false),
    set_config('enable_bitmapscan', 'off', false),
    set_config('enable_sort', 'off', false)
