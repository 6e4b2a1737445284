package artifact

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// PutBlob stores content under its SHA-256, which it returns, unless the
// session has it already.
func PutBlob(ctx context.Context, store Store, layout Layout, content []byte) (string, error) {
	sum := sha256.Sum256(content)
	hash := hex.EncodeToString(sum[:])
	key := layout.Blob(hash)
	there, err := store.Exists(ctx, key)
	if err == nil && !there {
		err = store.Put(ctx, key, bytes.NewReader(content))
	}
	if err != nil {
		return "", fmt.Errorf("storing blob %s: %w", hash, err)
	}
	return hash, nil
}
