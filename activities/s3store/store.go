package s3store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"conclave/engine/files/artifact"
)

// Store implements artifact.Store in a bucket. It is safe for concurrent use.
type Store struct {
	client    *s3.Client
	closeIdle func()
	bucket    string
	prefix    string // empty, or ending in "/"
	pageSize  int32  // keys in one page of a listing; 0 means the server's default
	packs     *packs
}

var _ artifact.Store = (*Store)(nil)

// New returns a store, which must be closed after use. It sends no request; see Probe.
func New(ctx context.Context, opts Options) (*Store, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	client, closeIdle, err := opts.newClient(ctx)
	if err != nil {
		return nil, fmt.Errorf("open bucket %q: %w", opts.Bucket, err)
	}
	if client.Options().Region == "" {
		return nil, fmt.Errorf("open bucket %q: no region is known: set AWS_REGION, "+
			"or AWS_ENDPOINT_URL_S3 for a store that is not AWS", opts.Bucket)
	}
	s := &Store{client: client, closeIdle: closeIdle, bucket: opts.Bucket, packs: new(packs)}
	if prefix := strings.Trim(opts.Prefix, "/"); prefix != "" {
		s.prefix = prefix + "/"
	}
	return s, nil
}

// Close closes idle connections, because they would delay the shutdown of a server.
func (s *Store) Close() error {
	s.closeIdle()
	return s.packs.close()
}

// URL returns s3://BUCKET/PREFIX/KEY.
func (s *Store) URL(key string) string { return "s3://" + s.bucket + "/" + s.prefix + key }

func (s *Store) objectKey(ctx context.Context, key string) (*string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := artifact.CheckKey(key); err != nil {
		return nil, err
	}
	full := s.prefix + key
	if len(full) > artifact.MaxKey {
		return nil, &artifact.NameError{What: "key", Name: full, Problem: fmt.Sprintf(
			"it has %d bytes with the bucket's prefix: at most %d are allowed", len(full), artifact.MaxKey)}
	}
	return &full, nil
}

func (s *Store) location() string {
	endpoint := aws.ToString(s.client.Options().BaseEndpoint)
	if endpoint == "" {
		return fmt.Sprintf("bucket %q (AWS, %s)", s.bucket, s.client.Options().Region)
	}
	if u, err := url.Parse(endpoint); err == nil {
		endpoint = u.Redacted()
	}
	return fmt.Sprintf("bucket %q at %s", s.bucket, endpoint)
}

// operationError adds the operation to an error, and converts a missing object to artifact.ErrNotFound.
func (s *Store) operationError(verb, key string, err error) error {
	if _, ok := errors.AsType[*artifact.NameError](err); ok {
		return fmt.Errorf("%s: %w", verb, err)
	}
	if isMissing(err) {
		err = artifact.ErrNotFound
	}
	return artifact.StoreFault(verb+" "+s.URL(key), shortenError(err))
}

// Options identifies a bucket. Without access keys, the AWS SDK reads credentials, region, profile, endpoint
// and checksum modes from the environment and its files; Endpoint and Region take precedence over these.
type Options struct {
	Bucket string
	// Prefix is prepended to every key, followed by a "/". It is a valid key of at most
	// artifact.MaxStorePrefix bytes.
	Prefix string

	// Endpoint is the URL of a store other than AWS. Its buckets are addressed by path.
	Endpoint string
	// Region defaults to us-east-1 if there is an endpoint.
	Region          string
	AccessKeyID     string
	SecretAccessKey string

	// ChecksumsWhenRequired is for servers that do not support the newer checksum algorithms.
	ChecksumsWhenRequired bool

	// Observe is called after each attempt of a request. It may be nil.
	Observe Observer

	// wait and silence replace firstWait and maxSilence in tests; 0 means the default.
	wait, silence time.Duration
}

const defaultRegion = "us-east-1"

var bucketName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]$`)

func (o Options) check() error {
	if !bucketName.MatchString(o.Bucket) {
		return fmt.Errorf("bucket name %q: use 3 to 63 lower-case letters, digits, '.' and '-'", o.Bucket)
	}
	if (o.AccessKeyID == "") != (o.SecretAccessKey == "") {
		return errors.New("access key id and secret access key: give both or neither")
	}
	if o.Endpoint != "" {
		u, err := url.Parse(o.Endpoint)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return fmt.Errorf("endpoint %q: use a URL such as http://127.0.0.1:9000", o.Endpoint)
		}
	}
	prefix := strings.Trim(o.Prefix, "/")
	if prefix == "" {
		return nil
	}
	if err := artifact.CheckKey(prefix); err != nil {
		return fmt.Errorf("prefix for bucket %q: %w", o.Bucket, err)
	}
	if len(prefix) > artifact.MaxStorePrefix {
		return fmt.Errorf("prefix %q for bucket %q: use at most %d bytes", prefix, o.Bucket, artifact.MaxStorePrefix)
	}
	return nil
}

func (o Options) newClient(ctx context.Context) (*s3.Client, func(), error) {
	if o.AccessKeyID != "" {
		client, idle := o.explicitClient()
		return client, idle, nil
	}
	var load []func(*config.LoadOptions) error
	if o.Region != "" {
		load = append(load, config.WithRegion(o.Region))
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, nil, fmt.Errorf("read the AWS configuration: %w: check the AWS_* variables and the profile", err)
	}
	return s3.NewFromConfig(cfg, o.applyTo, o.withDialer), func() {}, nil
}

// withDialer makes the SDK's HTTP client close silent connections, in place of a limit for whole requests.
func (o Options) withDialer(so *s3.Options) {
	client, ok := so.HTTPClient.(*awshttp.BuildableClient)
	if !ok {
		return
	}
	so.HTTPClient = client.WithReadTimeout(0).WithTransportOptions(func(t *http.Transport) {
		t.DialContext = o.newDialer()
	}).Freeze() // otherwise a copy of the options loses the dialer
}

// explicitClient returns a client with the keys in the options. It uses no proxy.
func (o Options) explicitClient() (*s3.Client, func()) {
	transport := &http.Transport{
		DialContext:           o.newDialer(),
		MaxIdleConnsPerHost:   64,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
	}
	client := s3.New(s3.Options{
		Region:      o.Region,
		Credentials: credentials.NewStaticCredentialsProvider(o.AccessKeyID, o.SecretAccessKey, ""),
		HTTPClient: &http.Client{
			Transport: transport,
			// A signature is valid only for the original address.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, o.applyTo)
	return client, transport.CloseIdleConnections
}

func (o Options) applyTo(so *s3.Options) {
	if o.Endpoint != "" {
		so.BaseEndpoint = aws.String(o.Endpoint)
	}
	if so.BaseEndpoint != nil {
		so.UsePathStyle = true
		if so.Region == "" {
			so.Region = defaultRegion
		}
	}
	if o.Observe != nil {
		so.APIOptions = append(so.APIOptions, o.addObserver)
	}
	so.Retryer = newRetryer(cmp.Or(o.wait, firstWait))
	// Checksums would be disabled if the mode remained unset.
	if so.RequestChecksumCalculation == 0 {
		so.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenSupported
	}
	if so.ResponseChecksumValidation == 0 {
		so.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenSupported
	}
	if o.ChecksumsWhenRequired {
		so.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		so.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	}
}

const (
	connectTimeout = 10 * time.Second
	// maxSilence is the time without a byte after which a connection is considered dead. A server
	// may be silent during a copy.
	maxSilence = 30 * time.Second
)

// newDialer makes connections that fail after a period of silence. A limit for whole requests would
// have to suit a small document as well as 2 GiB.
func (o Options) newDialer() func(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: connectTimeout, KeepAlive: connectTimeout}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &timeoutConn{Conn: c, silence: cmp.Or(o.silence, maxSilence)}, nil
	}
}

// timeoutConn is a connection whose reads and writes fail after a period of silence.
type timeoutConn struct {
	net.Conn
	silence time.Duration
}

func (c *timeoutConn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.silence)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

// Write also extends the read deadline, because net/http waits for the response while it sends the request.
func (c *timeoutConn) Write(p []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(c.silence)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(p)
	if err == nil {
		err = c.SetReadDeadline(time.Now().Add(c.silence))
	}
	return n, err
}

// Observer is called after each attempt of a request with its operation, such as PutObject, the
// HTTP status, or 0 if no response arrived, and the duration.
type Observer func(operation string, status int, took time.Duration)

// addObserver inserts the observer into the SDK's middleware after the retries, so that it sees every
// attempt.
func (o Options) addObserver(stack *middleware.Stack) error {
	return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("Observe", func(
		ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler,
	) (middleware.DeserializeOutput, middleware.Metadata, error) {
		began := time.Now()
		out, metadata, err := next.HandleDeserialize(ctx, in)
		status := 0
		if response, ok := out.RawResponse.(*smithyhttp.Response); ok && response != nil {
			status = response.StatusCode
		}
		o.Observe(awsmiddleware.GetOperationName(ctx), status, time.Since(began))
		return out, metadata, err
	}), middleware.After)
}

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
