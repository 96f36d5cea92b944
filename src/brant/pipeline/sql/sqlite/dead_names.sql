SELECT DISTINCT queue FROM _honker_dead
