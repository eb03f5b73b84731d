package files

var (
	EncodeRequest = encodeRequest
	DecodeRequest = decodeRequest
)
