SELECT DISTINCT queue FROM _honker_live
