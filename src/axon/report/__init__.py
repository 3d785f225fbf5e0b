"""What happened: the records that every cycle leaves, and how results are shown.

records     round records as lines of JSON
tables      rows as aligned text and as HTML
figures     figures as values, drawn as SVG and PNG
timelines   who did what when, drawn as PNG
frames      records in a notebook; they and rows of tables as pandas frames
"""
