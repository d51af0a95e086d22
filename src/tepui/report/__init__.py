"""Tables, plots and the page that shows runs side by side."""

from tepui.report.loading import LoadedReports, load_reports
from tepui.report.page import write_report
from tepui.report.tables import printed_table

__all__ = ["LoadedReports", "load_reports", "printed_table", "write_report"]
