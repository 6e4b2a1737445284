package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	sdklog "go.temporal.io/sdk/log"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"conclave/activities/s3store"
	"conclave/worker/codec"
)

const (
	dialTimeout  = 8 * time.Second
	probeTimeout = 10 * time.Second
)

// Options returns the client options of the profile, overridden by flags. ok is false if no address
// is set.
func Options(address, namespace string) (o client.Options, ok bool, err error) {
	profile, err := envconfig.LoadClientConfigProfile(envconfig.LoadClientConfigProfileOptions{})
	if err != nil {
		return o, false, fmt.Errorf("read the Temporal client settings: %w; check TEMPORAL_* and temporal.toml", err)
	}
	if address != "" {
		profile.Address = address
	}
	if profile.Address == "" {
		return o, false, nil
	}
	if namespace != "" {
		profile.Namespace = namespace
	}
	o, err = profile.ToClientOptions(envconfig.ToClientOptionsRequest{})
	if err != nil {
		return o, false, fmt.Errorf("read the Temporal client settings: %w; check TEMPORAL_* and temporal.toml", err)
	}
	if o.Namespace == "" {
		o.Namespace = client.DefaultNamespace
	}
	return o, true, encrypt(&o)
}

// encrypt makes connections encrypt payloads if the environment contains keys.
func encrypt(o *client.Options) error {
	keys, err := codec.FromEnvironment()
	if err != nil || keys == nil {
		return err
	}
	options, err := keys.DialOptions()
	o.ConnectionOptions.DialOptions = append(o.ConnectionOptions.DialOptions, options...)
	return err
}

// Dial connects to Temporal. If ctx ends first, Dial returns its error unwrapped.
func Dial(ctx context.Context, o client.Options, logger *slog.Logger) (client.Client, error) {
	o.Logger = sdklog.NewStructuredLogger(logger)
	o.Identity = cmp.Or(o.Identity, identity())
	limited, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	c, err := client.DialContext(limited, o)
	switch {
	case err == nil:
		return c, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return nil, fmt.Errorf("connect to Temporal at %s, namespace %s: %w", o.HostPort, o.Namespace, err)
}

// DefaultRoster returns the directory in which a worker records its running activities. It is in
// the user's state directory. It returns "" if the user has no usable one.
func DefaultRoster() string {
	base := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(base) {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		base = filepath.Join(home, ".local", "state")
	}
	dir := filepath.Join(base, "conclave", "workers")
	if runtime.GOOS == "windows" || os.MkdirAll(dir, 0o700) != nil { // an open file cannot be replaced there
		return ""
	}
	return dir
}

// identity returns the name of this process in histories, which includes its version and host.
func identity() string { return "conclave/" + process() }

// WorkerIdentity returns the name of the worker in this process.
func WorkerIdentity() string { return "conclave-worker/" + process() }

// process returns VERSION@HOST#PID-RANDOM. The random part is unique to this process.
var process = sync.OnceValue(func() string {
	host, _ := os.Hostname()
	const unique = 8
	return fmt.Sprintf("%s@%s#%d-%s", Version(), host, os.Getpid(), rand.Text()[:unique])
})

// Name identifies a Temporal service among those whose workers share a roster.
func Name(o client.Options) string { return o.HostPort + "/" + o.Namespace }

// OpenBucket opens the store for the sessions of a cluster. It does not use the network. observe
// may be nil.
func OpenBucket(ctx context.Context, bucket, prefix string, observe s3store.Observer) (*s3store.Store, error) {
	store, err := s3store.New(ctx, s3store.Options{Bucket: bucket, Prefix: prefix, Observe: observe})
	if err != nil {
		return nil, fmt.Errorf("open the bucket %s: %w", bucket, err)
	}
	return store, nil
}

// Probe returns an error if a bucket cannot be used.
func Probe(ctx context.Context, store *s3store.Store) error {
	limited, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return store.Probe(limited)
}

// Explain returns the text of an error for people, without terms of Temporal and gRPC.
func Explain(err error) string {
	text := strings.Replace(err.Error(), "failed reaching server: ", "", 1)
	if e, ok := errors.AsType[*serviceerror.NamespaceNotFound](err); ok {
		return strings.Replace(text, e.Error(), "the namespace "+e.Namespace+" does not exist there; check --namespace", 1)
	}
	if e, ok := errors.AsType[*serviceerror.PermissionDenied](err); ok {
		return strings.Replace(text, e.Error(), "the server refuses access; check the API key or certificate of your Temporal profile", 1)
	}
	if e, ok := errors.AsType[*serviceerror.Unavailable](err); ok {
		return strings.Replace(text, e.Error(), "the server cannot be reached ("+reason(e.Message)+")", 1)
	}
	text = encrypted.ReplaceAllString(text, "the payloads are encrypted; set "+codec.Variable+" as on the workers")
	_, late := errors.AsType[*serviceerror.DeadlineExceeded](err)
	if late || errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded {
		text = strings.Replace(text, "rpc error: code = DeadlineExceeded desc = context deadline exceeded", "context deadline exceeded", 1)
		text = strings.Replace(text, "context deadline exceeded", "no answer in time", 1)
	}
	return text
}

// encrypted matches the SDK's error for an encrypted payload that is read without a key.
var encrypted = regexp.MustCompile(`(payload item \d+: )?encoding binary/encrypted: payload encoding is not supported`)

// reason extracts the operating system's error from a gRPC error message.
func reason(message string) string {
	if _, after, ok := strings.Cut(message, "desc = "); ok {
		message = after
	}
	if i := strings.LastIndex(message, "dial tcp "); i >= 0 {
		message = message[i+len("dial "):]
	}
	return strings.Trim(message, `"' `)
}
