"""What a run needs of this machine: Java, the jars, a Spark session, the warehouse's lock.

Other rooms use `session`, `java`, `jars`, `lock`, `process` (a program that ends with this one) and `failpoints`.
"""
