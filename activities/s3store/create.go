package s3store

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"conclave/engine/files/artifact"
)

// Create implements artifact.Store with If-None-Match: *. If a try got no response, it may have stored the
// object, and a later try is refused. Create then reads the object and succeeds if it has the same bytes.
// Bodies that two callers might both write must therefore contain a unique token.
func (s *Store) Create(ctx context.Context, key string, body []byte) error {
	full, err := s.objectKey(ctx, key)
	if err == nil {
		err = s.createWithRetries(ctx, key, full, body)
	}
	if err != nil {
		return s.operationError("create", key, err)
	}
	return nil
}

func (s *Store) createWithRetries(ctx context.Context, key string, full *string, body []byte) error {
	unsure := false // a failed try may have stored the object
	var err error
	for try := range s.client.Options().Retryer.MaxAttempts() {
		if try > 0 {
			if err := s.awaitRetry(ctx, try); err != nil {
				return err
			}
		}
		_, err = s.client.PutObject(ctx, &s3.PutObjectInput{
			Bucket: &s.bucket, Key: full, Body: bytes.NewReader(body), IfNoneMatch: aws.String("*"), ContentType: contentType(key),
		}, withoutRetries)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil && !errors.Is(err, ctx.Err()):
			return fmt.Errorf("%w after: %w", ctx.Err(), err)
		case ctx.Err() != nil:
			return err
		case httpStatus(err) == http.StatusPreconditionFailed:
			return s.readBack(ctx, key, body, unsure, artifact.ErrExists)
		case isConflict(err):
			// Another write was in progress; the next try shows its outcome.
		case isTransient(err):
			unsure = true
		default:
			return err
		}
	}
	return s.readBack(ctx, key, body, unsure, err)
}

// isConflict reports whether the store refused to decide because of a concurrent write.
func isConflict(err error) bool {
	return httpStatus(err) == http.StatusConflict &&
		(errorCode(err) == "ConditionalRequestConflict" || errorCode(err) == "OperationAborted")
}

// readBack reads the stored object to decide whether a refused or failed Create has succeeded.
func (s *Store) readBack(ctx context.Context, key string, body []byte, unsure bool, err error) error {
	refused := errors.Is(err, artifact.ErrExists)
	if refused && !unsure {
		return err
	}
	var options []func(*s3.Options)
	if !refused {
		options = append(options, withoutRetries) // no tries are left
	}
	stored, getErr := s.readObject(ctx, key, options...)
	switch {
	case isMissing(getErr):
		return err
	case getErr != nil && refused:
		return fmt.Errorf("whether the key was created by this call is not known: %w", getErr)
	case getErr != nil:
		return err
	case unsure && bytes.Equal(stored, body):
		return nil
	}
	return artifact.ErrExists
}

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
