package codec

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// Variable is the environment variable that contains the keys, each as ID:BASE64, separated by
// commas. The first key encrypts; all of them decrypt.
const Variable = "CONCLAVE_PAYLOAD_KEY"

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

// FromEnvironment returns the codec for the keys in Variable, or nil if it is not set.
func FromEnvironment() (*Codec, error) {
	value := os.Getenv(Variable)
	if value == "" {
		return nil, nil
	}
	c, err := Parse(value)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", Variable, err)
	}
	return c, nil
}

var validID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// Parse parses keys. Its errors do not contain the keys.
func Parse(value string) (*Codec, error) {
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

// NewKey returns a new key in the format of Variable.
func NewKey(id string) (string, error) {
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
			return nil, fmt.Errorf("decrypt a payload: the key %q is not in %s; add it after the others", id, Variable)
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
