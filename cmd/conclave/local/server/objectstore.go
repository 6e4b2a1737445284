package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"conclave/cmd/conclave/local"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/gofiber/fiber/v3"
	"github.com/valyala/fasthttp"
	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
	"github.com/versity/versitygw/s3api"
)

const (
	storeRegion = "us-east-1"
	// storeOwner is the name of the only account and its access key. It must not change, because
	// existing buckets belong to it.
	storeOwner = "conclave"
	// copyLimit is S3's limit for one server-side copy, in bytes. With zero the gateway refuses every copy.
	copyLimit = 5 << 30
	// The gateway requires limits; sessions need far fewer than these.
	storeConnections = 4096
	storeRequests    = 2048
	// maxParts is S3's limit on the parts of a multipart upload.
	maxParts = 10000
	// bucketOwner is the extended attribute that the gateway requires of a bucket.
	bucketOwner = "acl"
)

// startObjectStore serves the directory as an S3 server and creates the bucket. The gateway
// changes the process's working directory and uses global state.
func (s *servers) startObjectStore(ctx context.Context, dir string, listener net.Listener) error {
	if err := prepareObjects(dir); err != nil {
		return err
	}
	options := posix.PosixOpts{CopyObjectThreshold: copyLimit}
	options.SetNewDirPerm(0o700)
	options.SetNewFilePerm(0o600)
	files, err := newGuard(dir, options)
	if err != nil {
		return fmt.Errorf("open the object store %s: %w", dir, err)
	}
	servers := make(chan *fasthttp.Server, 1)
	config := gatewayConfig(s.stack)
	config.S3Options = []s3api.Option{s3api.WithRoute(http.MethodGet, serverRoute, handOver(servers))}
	// ctx ends when the start is complete.
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.recordFailure("the S3 store", embedgw.RunVersityGW(running, files, config))
	}()
	s.stops = append(s.stops, func(context.Context) {
		end()
		<-ended
	})
	if err := s.repeatUntil(ctx, requestServer); err != nil {
		return fmt.Errorf("reach the S3 store: %w", err)
	}
	server := <-servers
	if err := os.Remove(gatewaySocket); err != nil { // it has served its purpose
		return fmt.Errorf("remove the socket of the S3 store: %w", err)
	}
	go func() { s.recordFailure("the S3 store", server.Serve(listener)) }()
	return s.makeBucket(ctx)
}

// The gateway can only open its own listener, which accepts every connection. Therefore it
// listens on a private Unix socket, where one request hands over its HTTP server, which then
// also serves the guarded listener.
const (
	// gatewaySocket is relative to the gateway's working directory, the directory of the object store,
	// because an absolute path could exceed the length limit of socket names.
	gatewaySocket = ".socket"
	// serverRoute cannot be an object's path, because it is not a valid bucket name.
	serverRoute = "/.server"
)

// handOver returns the handler that hands over the HTTP server at its first request.
// Later requests have no effect.
func handOver(servers chan<- *fasthttp.Server) fiber.Handler {
	return func(c fiber.Ctx) error {
		select {
		case servers <- c.App().Server():
		default:
		}
		return c.SendStatus(http.StatusNoContent)
	}
}

func requestServer(ctx context.Context) error {
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", gatewaySocket)
		},
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+loopback+serverRoute, nil)
	if err != nil {
		return err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusNoContent {
		return fmt.Errorf("request its server: status %s", response.Status)
	}
	return nil
}

func gatewayConfig(stack local.Stack) *embedgw.Config {
	return &embedgw.Config{
		RootUserAccess:    stack.S3AccessKey,
		RootUserSecret:    stack.S3SecretKey,
		Region:            stack.S3Region,
		Ports:             []string{gatewaySocket},
		SocketPerm:        "0600",
		MaxConnections:    storeConnections,
		MaxRequests:       storeRequests,
		MultipartMaxParts: maxParts,
		KeepAlive:         true,
		Quiet:             true,
		DisableACLs:       true,
	}
}

// prepareObjects creates the directory and checks that it supports extended attributes, in which
// the gateway stores metadata.
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

// checkBucket checks the attribute that the gateway requires of a bucket's directory. It removes an empty
// directory without the attribute, which an interrupted start can leave.
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

// makeBucket creates the bucket, which also checks that the store answers.
func (s *servers) makeBucket(ctx context.Context) error {
	client := s3.New(s3.Options{
		BaseEndpoint:     aws.String(s.stack.S3Endpoint),
		Region:           s.stack.S3Region,
		UsePathStyle:     true,
		RetryMaxAttempts: 1,
		// An idle connection would delay the gateway's shutdown.
		HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: s.stack.S3AccessKey, SecretAccessKey: s.stack.S3SecretKey}, nil
		}),
	})
	err := s.repeatUntil(ctx, func(ctx context.Context) error {
		_, err := client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: aws.String(bucketName)})
		if _, exists := errors.AsType[*types.BucketAlreadyOwnedByYou](err); exists {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("make the bucket %s at %s: %w", bucketName, s.stack.S3Endpoint, err)
	}
	return nil
}
