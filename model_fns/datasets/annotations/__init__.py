"""Parts of annotations that several formats have: keypoints, polygons, a file for each image."""
