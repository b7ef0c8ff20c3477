"""What a run needs of this machine: Java, the jars, a Spark session, the warehouse's lock."""
