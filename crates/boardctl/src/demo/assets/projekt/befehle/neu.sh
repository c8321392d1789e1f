# tagebuch neu GERÄT TEXT MINUTEN
[ $# -eq 3 ] || fehler 'neu braucht GERÄT, TEXT und MINUTEN' 2
case $1$2 in
    *';'*) fehler 'ein Strichpunkt trennt die Felder und darf in keinem stehen' 2 ;;
esac
case $3 in
    '' | *[!0-9]*) fehler "keine ganze Zahl von Minuten: $3" 2 ;;
esac
printf '%s;%s;%s;%s\n' "$(date +%Y-%m-%d)" "$1" "$2" "$3" >>"$buch"
