"""Data types that several tasks share: images, label maps, rotated rectangles."""
