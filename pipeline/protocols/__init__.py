"""One package for each protocol: raw frame in, change frame and control messages out.

Other rooms use `build` (the protocol that the settings name), `recognise` (what a message looks like), `images` (which
rows carry the row as it was) and `overrides` (types that a user gave). Begin with `model.messages.SourceProtocol`: each
protocol implements it.
"""
