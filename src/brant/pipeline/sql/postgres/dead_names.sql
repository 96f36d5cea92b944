SELECT DISTINCT queue FROM brant._honker_dead
