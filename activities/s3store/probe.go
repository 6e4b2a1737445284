package s3store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"time"

	"conclave/engine/artifact"
)

// Reasons why a store cannot be used. The errors of Probe wrap them.
var (
	errConditionalWrites = errors.New("the store does not honour conditional writes")
	errUnreachable       = errors.New("the store cannot be reached")
	errNoBucket          = errors.New("the bucket does not exist")
	errRefused           = errors.New("the store refuses the credentials")
)

// probeTimeout bounds Probe.
const probeTimeout = 20 * time.Second

// Probe verifies that objects can be written and read, and that the store refuses the second of two
// conditional writes to a key. It deletes the object that it writes.
func (s *Store) Probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	s = s.withFewTries()
	key := "probe/" + rand.Text()
	err := s.probe(ctx, key)
	if err == nil || errors.Is(err, errConditionalWrites) {
		// Probe also succeeds without permission to delete.
		_ = s.Delete(ctx, key)
	}
	if err != nil {
		return s.unusable("try", err)
	}
	return nil
}

func (s *Store) probe(ctx context.Context, key string) error {
	first, second := []byte("first"), []byte("second")
	switch err := s.Create(ctx, key, first); {
	case errors.Is(err, artifact.ErrExists):
		return fmt.Errorf("%w: it refused a key that was free", errConditionalWrites)
	case status(err) == http.StatusNotImplemented:
		return fmt.Errorf("%w: %w", errConditionalWrites, concise(err))
	case err != nil:
		return err
	}
	switch err := s.Create(ctx, key, second); {
	case err == nil:
		return fmt.Errorf("%w: it let a second writer overwrite a key", errConditionalWrites)
	case !errors.Is(err, artifact.ErrExists):
		return err
	}
	stored, err := s.Get(ctx, key)
	if err != nil {
		return err
	}
	if string(stored) != string(first) {
		return fmt.Errorf("%w: it refused a second writer, but stored its object", errConditionalWrites)
	}
	return nil
}

// unusable returns an error that names the bucket, the reason and the remedy.
func (s *Store) unusable(verb string, err error) error {
	reason, remedy := err, "check the endpoint, the region and the bucket's name"
	switch {
	case errors.Is(err, errConditionalWrites):
		remedy = "agents would overwrite each other's steps; use a store that supports If-None-Match: * on PUT"
	case status(err) == http.StatusForbidden, status(err) == http.StatusUnauthorized, code(err) == "XAdminUserNotFound":
		reason = fmt.Errorf("%w: %w", errRefused, concise(err))
		remedy = "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the profile, and their permissions"
	case status(err) == http.StatusNotFound:
		reason = fmt.Errorf("%w: %w", errNoBucket, concise(err))
		remedy = "create it, or name another one"
	case status(err) == 0 && (isUnanswered(err) || errors.Is(err, context.DeadlineExceeded)):
		reason = fmt.Errorf("%w: %w", errUnreachable, concise(err))
		remedy = "check the endpoint (AWS_ENDPOINT_URL_S3) and that the store is running"
	case status(err) == 0 && !errors.Is(err, context.Canceled):
		remedy = "check that credentials and region are configured (AWS_* variables or a profile)"
	}
	return fmt.Errorf("%s %s: %w; %s", verb, s.location(), reason, remedy)
}
