"""Command of the campaign: `python -m tests.campaigns.fuzz`."""

from tests.campaigns.fuzz import campaign

campaign.main()
