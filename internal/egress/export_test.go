package egress

var ReadSOCKS = readSOCKS
