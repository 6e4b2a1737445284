package artifact

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// MaxDocument is the size in bytes up to which a document is read: a larger one
// was not written by this package.
const MaxDocument = 32 << 20

// MalformedError says that a document is there but cannot be read. Trying again
// does not help.
type MalformedError struct {
	Key string
	Err error
}

func (e *MalformedError) Error() string {
	return fmt.Sprintf("document %q is malformed: %v: repair it or remove it", e.Key, e.Err)
}

func (e *MalformedError) Unwrap() error { return e.Err }

// ReadJSON reads the document under key, or fails with ErrNotFound. Fields that
// T does not have are ignored: directories written by other programs may hold
// more. A document that cannot be read is a *MalformedError.
func ReadJSON[T any](ctx context.Context, store Store, key string) (T, error) {
	var doc T
	data, err := readBounded(ctx, store, key)
	if err != nil {
		return doc, err
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		var zero T
		return zero, &MalformedError{Key: key, Err: err}
	}
	return doc, nil
}

// PutJSON writes or replaces the document under key.
func PutJSON(ctx context.Context, store Store, key string, doc any) error {
	data, err := EncodeJSON(doc)
	if err != nil {
		return fmt.Errorf("encode document %q: %w", key, err)
	}
	return store.Put(ctx, key, bytes.NewReader(data))
}

// CreateJSON writes the document only if the key is free, else it fails with ErrExists.
func CreateJSON(ctx context.Context, store Store, key string, doc any) error {
	data, err := EncodeJSON(doc)
	if err != nil {
		return fmt.Errorf("encode document %q: %w", key, err)
	}
	return store.Create(ctx, key, data)
}

// EncodeJSON is the form of every document: indented by two spaces, ending in a
// newline, the same bytes for the same value. Raw JSON inside is indented too.
func EncodeJSON(doc any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(doc); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Timestamp is t as documents hold it: UTC (so that it ends in Z), in whole
// milliseconds, without a monotonic reading.
func Timestamp(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

func readBounded(ctx context.Context, store Store, key string) ([]byte, error) {
	r, err := store.Open(ctx, key)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, MaxDocument+1))
	if err != nil {
		return nil, fmt.Errorf("read document %q: %w", key, err)
	}
	if len(data) > MaxDocument {
		return nil, &MalformedError{Key: key, Err: fmt.Errorf("it is larger than %d bytes", MaxDocument)}
	}
	return data, nil
}
