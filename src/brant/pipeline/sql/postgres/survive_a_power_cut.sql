SELECT CASE current_setting('synchronous_commit')
    WHEN 'off' THEN set_config('synchronous_commit', 'on', true)
    ELSE current_setting('synchronous_commit')
END AS synchronous_commit
