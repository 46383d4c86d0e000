"""The processes of a job: waiting, heartbeats, supervision, coordinated stop, ending."""
