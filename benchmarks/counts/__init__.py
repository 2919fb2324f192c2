"""What windows count of a request beside what a stand-in of the provider counts of the same request as it is sent."""
