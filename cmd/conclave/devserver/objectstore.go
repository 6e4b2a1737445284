package devserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"

	"conclave/cmd/conclave/localstack"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
)

const (
	storeRegion = "us-east-1"
	// storeOwner is the only account and its access key. Buckets belong to it,
	// so it stays the same even if the secret is made anew.
	storeOwner = "conclave"
	// copyLimit is S3's own limit for one server-side copy. The gateway takes
	// zero literally and would refuse every copy.
	copyLimit = 5 << 30
	// Bounds that the gateway insists on; far more than a session's steps use.
	storeConnections = 4096
	storeRequests    = 2048
	// maxParts is S3's own limit for a multipart upload.
	maxParts = 10000
	// bucketOwner is the attribute without which the gateway serves no bucket.
	bucketOwner = "acl"
)

// startObjectStore serves the directory as an S3 server and makes the bucket.
//
// The gateway changes the working directory of the process and keeps state in
// globals: one more reason why the stack is a process of its own.
func (s *servers) startObjectStore(ctx context.Context, dir string, reserved net.Listener) error {
	if err := prepareObjects(dir); err != nil {
		return err
	}
	options := posix.PosixOpts{CopyObjectThreshold: copyLimit}
	options.SetNewDirPerm(0o700)
	options.SetNewFilePerm(0o600)
	files, err := posix.New(dir, meta.XattrMeta{}, options)
	if err != nil {
		return fmt.Errorf("open the object store %s: %w", dir, err)
	}
	config := &embedgw.Config{
		RootUserAccess:    s.stack.S3AccessKey,
		RootUserSecret:    s.stack.S3SecretKey,
		Region:            s.stack.S3Region,
		Ports:             []string{reserved.Addr().String()},
		MaxConnections:    storeConnections,
		MaxRequests:       storeRequests,
		MultipartMaxParts: maxParts,
		KeepAlive:         true,
		Quiet:             true,
		DisableACLs:       true,
	}
	if err := take(reserved); err != nil {
		return err
	}
	// Not ended by ctx, which is that of the start.
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := embedgw.RunVersityGW(running, &guard{Posix: files, root: dir}, config)
		if errors.Is(err, syscall.EADDRINUSE) {
			err = fmt.Errorf("%w: %w", err, localstack.ErrPortTaken)
		}
		s.failed("the S3 store", err)
	}()
	s.stops = append(s.stops, func(context.Context) {
		end()
		<-ended
	})
	return s.makeBucket(ctx)
}

// prepareObjects makes the directory and refuses one in which objects would
// lose their metadata, which the gateway keeps in extended attributes.
func prepareObjects(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the directory of the object store: %w", err)
	}
	probe, err := os.CreateTemp(dir, ".probe-*")
	if err != nil {
		return fmt.Errorf("write to the directory of the object store: %w", err)
	}
	defer func() { _ = os.Remove(probe.Name()) }()
	defer func() { _ = probe.Close() }()
	if err := (meta.XattrMeta{}).StoreAttribute(probe, "", "", "probe", []byte("1")); err != nil {
		return fmt.Errorf("store objects in %s: its file system keeps no extended attributes (%w); "+
			"choose a --data-dir on a local file system such as ext4, xfs, btrfs or APFS", dir, err)
	}
	return checkBucket(filepath.Join(dir, bucketName))
}

// checkBucket looks at a bucket's directory that was there before. Without its
// attribute the gateway would refuse the bucket for ever: if it is empty, a
// start was cut short; if not, a copy lost the attributes of all objects.
func checkBucket(dir string) error {
	_, err := (meta.XattrMeta{}).RetrieveAttribute(nil, dir, "", bucketOwner)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if !errors.Is(err, meta.ErrNoSuchKey) {
		return fmt.Errorf("open the bucket %s: %w", dir, err)
	}
	if err := os.Remove(dir); err != nil {
		return fmt.Errorf("open the bucket %s: its extended attributes are missing, as after a copy without them; "+
			"copy it again with cp -a, rsync -X or tar --xattrs", dir)
	}
	return nil
}

// makeBucket also is the proof that the store answers.
func (s *servers) makeBucket(ctx context.Context) error {
	client := s3.New(s3.Options{
		BaseEndpoint:     aws.String(s.stack.S3Endpoint),
		Region:           s.stack.S3Region,
		UsePathStyle:     true,
		RetryMaxAttempts: 1,
		// The connection is closed after each answer: an idle one would hold up
		// the end of the gateway.
		HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: s.stack.S3AccessKey, SecretAccessKey: s.stack.S3SecretKey}, nil
		}),
	})
	err := s.until(ctx, func(ctx context.Context) error {
		_, err := client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: aws.String(bucketName)})
		var ours *types.BucketAlreadyOwnedByYou
		if errors.As(err, &ours) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("make the bucket %s at %s: %w", bucketName, s.stack.S3Endpoint, err)
	}
	return nil
}
