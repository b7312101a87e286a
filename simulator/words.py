"""What answers are made of. Every entry is exactly one token of `simulator.tokens`, white space included."""

_WORDS = """
the of and to in is that it was for on are with as at be this from have or by one had not but what all were when we
there can an your which their if do will each about how up out them then she many some so these would other into has
more her two like him see time could no make than first been its who now people my made over did down only way find use
may water long little very after words called just where most know get through back much before go good new write our
used me man too any day same right look think also around another came come work three word must because does part even
place well such here take why help put different away again off went old number great tell men say small every found
still between name should home big give air line set own under read last never us left end along while might next sound
below saw something thought both few those always looked show large often together asked house world going want school
important until form food keep children feet land side without boy once animal life enough took sometimes four head
above kind began almost live page got earth need far hand high year mother light parts country father let night
following picture being study second eyes soon times story boys since white days ever paper hard near sentence better
best across during today others however sure means knew try told young miles sun ways thing whole hear example heard
several change answer room sea against top turned learn point city play toward five using himself usually
"""
_SIGNS = [",", ".", ";", ":", "?", "!"]
_CHINESE = (
    "的一是在不了有和人这中大为上个国我以要他时来用们生到作地于出就分对成会可主发年动同工也能下过子说产种"
    "面而方后多定行学法所民得经十三之进着等部度家电力里如水化高自二理起小物现实加量都两体制机当使点从业本"
    "去把性好应开它合还因由其些然前外天政四日那社义事平形相全表间样与关各重新线内数正心反你明看原又么利比"
    "或但质气第向道命此变条只没结解问意建月公无系军很情者最立代想已通并提直题党程展五果料象员革位入常文总"
    "次品式活设及管特件长求老头基资边流路级少图山统接知较将组见计别她手角期根论运农指几九区强放决西被干做"
    "必战先回则任取据处队南给色光门即保治北造百规热领七海口东导器压志世金增争济阶油思术极交受联什认六共权"
    "收证改清己美再采转更单风切打白教速花带安场身车例真务具万每目至达走积示议声报斗完类八离华名确才科张信"
    "马节话米整空元况今集温传土许步群广石记需段研界拉林律叫且究观越织装影算低持音众书布复容儿须际商非验连"
    "断深难近矿千周委素技备半办青省列习响约支般史感劳便团往酸历市克何除消构府称太准精值号率族维划选标写存"
    "候毛亲快效斯院查江型眼王按格养易置派层片始却专状育厂京识适属圆包火住调满县局照参红细引听该铁价严"
)

ENGLISH: list[str] = [f" {word}" for word in _WORDS.split()] + _SIGNS * 6
CHINESE: list[str] = list(_CHINESE)
