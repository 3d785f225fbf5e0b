"""What happened: the records that every cycle leaves, and how results are shown.

records     round records as lines of JSON
tables      rows as aligned text and as HTML
figures     figures as values, drawn as SVG
frames      records in a notebook, and as pandas frames
"""
