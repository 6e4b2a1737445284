package s3store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"conclave/engine/artifact"
)

// Create implements artifact.Store with If-None-Match: *.
//
// An attempt without an answer may have been stored, so a later refusal may be
// one by ourselves: then the object is read back, and if it has our bytes, the
// call has succeeded. Bodies that two callers could share must hold a token.
func (s *Store) Create(ctx context.Context, key string, body []byte) error {
	full, err := s.objectKey(ctx, key)
	if err == nil {
		err = s.create(ctx, key, full, body)
	}
	if err != nil {
		return s.failed("create", key, err)
	}
	return nil
}

func (s *Store) create(ctx context.Context, key string, full *string, body []byte) error {
	unsure := false // an attempt failed, and may have been stored all the same
	var err error
	for attempt := range s.attempts() {
		if attempt > 0 {
			if err := s.pause(ctx, attempt); err != nil {
				return err
			}
		}
		err = s.putIfFree(ctx, full, body)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return err
		case status(err) == http.StatusPreconditionFailed:
			return s.readBack(ctx, key, body, unsure, artifact.ErrExists)
		case isConflict(err):
			// Another write was under way. Who has won shows the next attempt.
		case isPassing(err):
			unsure = true
		default:
			return err
		}
	}
	return s.readBack(ctx, key, body, unsure, err)
}

// isConflict reports that the store could not decide, because somebody else
// wrote the same key at that moment.
func isConflict(err error) bool {
	return status(err) == http.StatusConflict &&
		(code(err) == "ConditionalRequestConflict" || code(err) == "OperationAborted")
}

// readBack looks who holds the key after Create was refused (ErrExists) or gave
// up with err.
func (s *Store) readBack(ctx context.Context, key string, body []byte, unsure bool, err error) error {
	refused := errors.Is(err, artifact.ErrExists)
	if refused && !unsure {
		return err
	}
	var options []func(*s3.Options)
	if !refused {
		options = append(options, once) // the store had its chances
	}
	stored, getErr := s.read(ctx, key, options...)
	switch {
	case isMissing(getErr):
		return err
	case getErr != nil && refused:
		return fmt.Errorf("who holds the key is not known: %w", getErr)
	case getErr != nil:
		return err
	case unsure && bytes.Equal(stored, body):
		return nil
	}
	return artifact.ErrExists
}

func (s *Store) putIfFree(ctx context.Context, full *string, body []byte) error {
	_, err := s.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &s.bucket, Key: full, Body: bytes.NewReader(body), IfNoneMatch: aws.String("*"),
	}, once)
	return err
}
