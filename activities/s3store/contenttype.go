package s3store

import "path"

// contentType returns the media type of a key's content by its extension, so that consoles and browsers
// show it; nil if it is unknown.
func contentType(key string) *string {
	types := map[string]string{
		".json": "application/json", ".jsonl": "application/x-ndjson", ".md": "text/markdown; charset=utf-8", ".html": "text/html; charset=utf-8",
		".txt": "text/plain; charset=utf-8", ".patch": "text/plain; charset=utf-8", ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg",
	}
	if found, ok := types[path.Ext(key)]; ok {
		return &found
	}
	return nil
}
