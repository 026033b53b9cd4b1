"""Sessions and an outside writer at one workspace, and whether anything of anybody was lost."""
