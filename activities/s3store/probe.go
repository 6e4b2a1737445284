package s3store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"time"

	"conclave/engine/files/artifact"
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
	err := s.probeWrites(ctx, key)
	if err == nil || errors.Is(err, errConditionalWrites) {
		// Probe also succeeds without permission to delete.
		_ = s.Delete(ctx, key)
	}
	if err != nil {
		return s.unusableError("try", err)
	}
	return nil
}

func (s *Store) probeWrites(ctx context.Context, key string) error {
	first, second := []byte("first"), []byte("second")
	switch err := s.Create(ctx, key, first); {
	case errors.Is(err, artifact.ErrExists):
		return fmt.Errorf("%w: it refused a key that was free", errConditionalWrites)
	case httpStatus(err) == http.StatusNotImplemented:
		return fmt.Errorf("%w: %w", errConditionalWrites, shortenError(err))
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

func (s *Store) unusableError(verb string, err error) error {
	reason, remedy := err, "check the endpoint, the region and the bucket's name"
	switch {
	case errors.Is(err, errConditionalWrites):
		remedy = "agents would overwrite each other's steps; use a store that supports If-None-Match: * on PUT"
	case httpStatus(err) == http.StatusForbidden, httpStatus(err) == http.StatusUnauthorized, errorCode(err) == "XAdminUserNotFound":
		reason = fmt.Errorf("%w: %w", errRefused, shortenError(err))
		remedy = "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the profile, and their permissions"
	case httpStatus(err) == http.StatusNotFound:
		reason = fmt.Errorf("%w: %w", errNoBucket, shortenError(err))
		remedy = "create it, or name another one"
	case httpStatus(err) == 0 && (isUnanswered(err) || errors.Is(err, context.DeadlineExceeded)):
		reason = fmt.Errorf("%w: %w", errUnreachable, shortenError(err))
		remedy = "check the endpoint (AWS_ENDPOINT_URL_S3) and that the store is running"
	case httpStatus(err) == 0 && !errors.Is(err, context.Canceled):
		remedy = "check that credentials and region are configured (AWS_* variables or a profile)"
	}
	return fmt.Errorf("%s %s: %w; %s", verb, s.location(), reason, remedy)
}
