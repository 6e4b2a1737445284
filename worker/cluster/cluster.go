package cluster

import (
	"cmp"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
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

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/converter"
	sdklog "go.temporal.io/sdk/log"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"conclave/activities/s3store"
)

const (
	dialTimeout  = 8 * time.Second
	probeTimeout = 10 * time.Second
)

// Options returns the client options of the profile, overridden by flags. ok is false if no address is set.
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
	return o, true, addEncryption(&o)
}

func addEncryption(o *client.Options) error {
	keys, err := CodecFromEnvironment()
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
	o.Identity = cmp.Or(o.Identity, clientIdentity())
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
	dir, err := UserDir("XDG_STATE_HOME", ".local", "state")
	dir = filepath.Join(dir, "workers")
	if err != nil || runtime.GOOS == "windows" || os.MkdirAll(dir, 0o700) != nil { // an open file cannot be replaced there
		return ""
	}
	return dir
}

// clientIdentity returns the name of this process in histories, which includes its version and host.
func clientIdentity() string { return "conclave/" + process() }

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

// OpenBucket opens the store for the sessions of a cluster. It does not use the network. observe may be nil.
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
		return strings.Replace(text, e.Error(), "the server cannot be reached ("+systemReason(e.Message)+")", 1)
	}
	text = encrypted.ReplaceAllString(text, "the payloads are encrypted; set "+KeyVariable+" as on the workers")
	_, late := errors.AsType[*serviceerror.DeadlineExceeded](err)
	if late || errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded {
		text = strings.Replace(text, "rpc error: code = DeadlineExceeded desc = context deadline exceeded", "context deadline exceeded", 1)
		text = strings.Replace(text, "context deadline exceeded", "no answer in time", 1)
	}
	return text
}

// encrypted matches the SDK's error for an encrypted payload that is read without a key.
var encrypted = regexp.MustCompile(`(payload item \d+: )?encoding binary/encrypted: payload encoding is not supported`)

func systemReason(message string) string {
	if _, after, ok := strings.Cut(message, "desc = "); ok {
		message = after
	}
	if i := strings.LastIndex(message, "dial tcp "); i >= 0 {
		message = message[i+len("dial "):]
	}
	return strings.Trim(message, `"' `)
}

// KeyVariable is the environment variable that contains the keys, each as ID:BASE64, separated by
// commas. The first key encrypts; all of them decrypt.
const KeyVariable = "CONCLAVE_PAYLOAD_KEY"

// Metadata of an encrypted payload.
const (
	encoding = "binary/encrypted"
	keyID    = "encryption-key-id"
)

const keyBytes = 32 // AES-256 has keys of 32 bytes

// Codec encrypts payloads. It is safe for concurrent use.
type Codec struct {
	current string
	keys    map[string]cipher.AEAD
}

// CodecFromEnvironment returns the codec for the keys in Variable, or nil if it is not set.
func CodecFromEnvironment() (*Codec, error) {
	value := os.Getenv(KeyVariable)
	if value == "" {
		return nil, nil
	}
	c, err := ParseCodecKey(value)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", KeyVariable, err)
	}
	return c, nil
}

var validID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// ParseCodecKey parses keys. Its errors do not contain the keys.
func ParseCodecKey(value string) (*Codec, error) {
	c := &Codec{keys: map[string]cipher.AEAD{}}
	for i, part := range strings.Split(value, ",") {
		id, encoded, named := strings.Cut(strings.TrimSpace(part), ":")
		if !named || !validID.MatchString(id) {
			return nil, fmt.Errorf("key %d has no ID; give it as ID:KEY, as `conclave codec key` prints it", i+1)
		}
		if _, twice := c.keys[id]; twice {
			return nil, fmt.Errorf("the key ID %s is there twice; give each key an ID of its own", id)
		}
		key, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil || len(key) != keyBytes {
			return nil, fmt.Errorf("the key %s is not %d bytes in base64; `conclave codec key` makes one", id, keyBytes)
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, fmt.Errorf("use the key %s: %w", id, err)
		}
		if c.keys[id], err = cipher.NewGCMWithRandomNonce(block); err != nil {
			return nil, fmt.Errorf("use the key %s: %w", id, err)
		}
		if c.current == "" {
			c.current = id
		}
	}
	return c, nil
}

// NewCodecKey returns a new key in the format of Variable.
func NewCodecKey(id string) (string, error) {
	if !validID.MatchString(id) {
		return "", fmt.Errorf("%q is not the ID of a key; it takes up to 64 letters, digits, ., _ and -", id)
	}
	key := make([]byte, keyBytes)
	_, _ = rand.Read(key) // the call never fails
	return id + ":" + base64.StdEncoding.EncodeToString(key), nil
}

// Encode implements converter.PayloadCodec. It does not change encrypted payloads.
func (c *Codec) Encode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	encoded := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		if string(p.GetMetadata()[converter.MetadataEncoding]) == encoding {
			encoded[i] = p
			continue
		}
		plain, err := proto.Marshal(p)
		if err != nil {
			return nil, fmt.Errorf("encrypt a payload: %w", err)
		}
		encoded[i] = &commonpb.Payload{
			Metadata: map[string][]byte{converter.MetadataEncoding: []byte(encoding), keyID: []byte(c.current)},
			Data:     c.keys[c.current].Seal(nil, nil, plain, []byte(c.current)),
		}
	}
	return encoded, nil
}

// Decode implements converter.PayloadCodec. It does not change payloads that are not encrypted.
func (c *Codec) Decode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	decoded := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		if string(p.GetMetadata()[converter.MetadataEncoding]) != encoding {
			decoded[i] = p
			continue
		}
		id := string(p.GetMetadata()[keyID])
		key, known := c.keys[id]
		if !known {
			return nil, fmt.Errorf("decrypt a payload: the key %q is not in %s; add it after the others", id, KeyVariable)
		}
		plain, err := key.Open(nil, nil, p.GetData(), []byte(id))
		if err != nil {
			return nil, fmt.Errorf("decrypt a payload with the key %s: %w; the key has changed, or the payload was damaged", id, err)
		}
		decoded[i] = &commonpb.Payload{}
		if err := proto.Unmarshal(plain, decoded[i]); err != nil {
			return nil, fmt.Errorf("decrypt a payload: %w", err)
		}
	}
	return decoded, nil
}

// DialOptions returns options for a connection that encrypts the payloads of requests and decrypts
// those of responses.
func (c *Codec) DialOptions() ([]grpc.DialOption, error) {
	failures, err := converter.NewFailureGRPCClientInterceptor(converter.NewFailureGRPCClientInterceptorOptions{EncodeCommonAttributes: true})
	payloads, payloadsErr := converter.NewPayloadCodecGRPCClientInterceptor(converter.PayloadCodecGRPCClientInterceptorOptions{Codecs: []converter.PayloadCodec{c}})
	if err := errors.Join(err, payloadsErr); err != nil {
		return nil, fmt.Errorf("encrypt payloads: %w", err)
	}
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(failures, payloads)}, nil
}

// TemporalCheck returns the check of readiness of a process that needs Temporal.
func TemporalCheck(c client.Client) func(context.Context) error {
	return func(ctx context.Context) error {
		if _, err := c.CheckHealth(ctx, &client.CheckHealthRequest{}); err != nil {
			return fmt.Errorf("Temporal does not answer: %w", err) //nolint:staticcheck // Temporal is a name
		}
		return nil
	}
}
