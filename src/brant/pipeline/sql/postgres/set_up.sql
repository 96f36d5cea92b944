SELECT set_config('statement_timeout', :statement_timeout, false)
